"""A proxy before a server that may answer in its place, or slowly: for faults that no real server makes on demand."""

import selectors
import socket
import threading


class Proxy:
    """Listens on `port` of 127.0.0.1 and passes everything on to a server, unless `rule` says otherwise.

    `rule` is given what a client sent, one request or one pipeline. If it answers bytes, the client gets these
    and the server gets nothing. It may sleep: connections do not wait for each other.
    """

    def __init__(self, server):
        self.server = server
        self.rule = lambda _sent: None
        #: Requests and pipelines that were sent.
        self.sent = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, socket.socket(socket.AF_UNIX) as server, selectors.DefaultSelector() as ready:
            try:
                server.connect(self.server.socket)
                ready.register(client, selectors.EVENT_READ)
                ready.register(server, selectors.EVENT_READ)
                while True:
                    for key, _ in ready.select():
                        data = key.fileobj.recv(1 << 20)
                        if not data:
                            return
                        if key.fileobj is server:
                            client.sendall(data)
                            continue
                        self.sent.append(data)
                        answer = self.rule(data)
                        if answer is None:
                            server.sendall(data)
                        else:
                            client.sendall(answer)
            except OSError:
                return

    def close(self):
        """No new connections; those that are there end with their clients."""
        self.listener.close()
