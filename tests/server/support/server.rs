//! A redis-server of its own for each test.
//!
//! Every server has a temporary directory with its configuration, socket, log
//! and data in it, loads the module from the build, and is killed and reaped
//! when it is dropped. A server that crashed, or in which the module caught a
//! panic, fails the test that used it.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::built::module_path;
use super::client::Client;
use super::{args, wait_for};

/// How long a server may take to start, with data to load, or to stop.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Makes the names of temporary directories differ within a process.
static SERVERS: AtomicU64 = AtomicU64::new(0);

/// How to start a server.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Lines of its configuration, after the harness's own.
    lines: Vec<String>,
    /// Lines that must come before `loadmodule`: none usually.
    before_module: Vec<String>,
    /// Arguments of our module's `loadmodule` line.
    module_args: String,
    /// Whether our module is loaded.
    with_module: bool,
    /// Other modules to load.
    modules: Vec<PathBuf>,
    /// Whether it listens on a port of this machine too.
    tcp: bool,
    /// Environment variables.
    env: Vec<(String, String)>,
    /// A program to start it through, with its arguments, such as faketime.
    through: Vec<String>,
    /// Another server program than the usual.
    program: Option<PathBuf>,
}

impl Options {
    /// A server on a socket file with nothing saved, and with the module.
    pub(crate) fn new() -> Self {
        Self {
            lines: Vec::new(),
            before_module: Vec::new(),
            module_args: String::new(),
            with_module: true,
            modules: Vec::new(),
            tcp: false,
            env: Vec::new(),
            through: Vec::new(),
            program: None,
        }
    }

    /// Adds a line of configuration. A later line wins over an earlier one.
    pub(crate) fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Adds a line of configuration before the module is loaded.
    pub(crate) fn line_before_module(mut self, line: impl Into<String>) -> Self {
        self.before_module.push(line.into());
        self
    }

    /// Sets one of the module's settings: `set("fence-guard-ms", 0)`.
    pub(crate) fn set(self, name: &str, value: impl std::fmt::Display) -> Self {
        self.line(format!("orderwheel.{name} {value}"))
    }

    /// Keeps an append-only file, written through at every command.
    pub(crate) fn aof(self) -> Self {
        self.line("appendonly yes").line("appendfsync always")
    }

    /// Publishes keyspace events of these classes.
    pub(crate) fn events(self, classes: &str) -> Self {
        self.line(format!("notify-keyspace-events {classes}"))
    }

    /// Listens on a free port of this machine too.
    pub(crate) fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// Is a replica of the server on this port, and listens on a port.
    pub(crate) fn replica_of(self, port: u16) -> Self {
        self.tcp()
            .line(format!("replicaof 127.0.0.1 {port}"))
            .line("repl-diskless-sync-delay 0")
    }

    /// Is a node of a cluster, and listens on a port.
    pub(crate) fn cluster(self) -> Self {
        self.tcp()
            .line("cluster-enabled yes")
            .line("cluster-node-timeout 2000")
    }

    /// Loads another module too.
    pub(crate) fn module(mut self, path: impl Into<PathBuf>) -> Self {
        self.modules.push(path.into());
        self
    }

    /// Does not load our module.
    pub(crate) fn without_module(mut self) -> Self {
        self.with_module = false;
        self
    }

    /// Gives our module arguments.
    pub(crate) fn module_args(mut self, args: &str) -> Self {
        args.clone_into(&mut self.module_args);
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Starts it through another program that keeps its process id.
    pub(crate) fn through(mut self, command: &[&str]) -> Self {
        self.through = command.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Starts this server program instead of the usual one.
    pub(crate) fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = Some(path.into());
        self
    }

    /// Starts the server.
    #[track_caller]
    pub(crate) fn start(self) -> Server {
        Server::start(self)
    }
}

/// A running server.
pub(crate) struct Server {
    /// How it was started.
    options: Options,
    /// Everything of it.
    dir: PathBuf,
    /// Its port, when it listens on one.
    port: Option<u16>,
    /// Its process; `None` once it was stopped.
    child: Option<Child>,
    /// Whether its end or a caught panic is part of the test.
    may_crash: bool,
}

impl Server {
    /// Starts a server and waits until it answers.
    #[track_caller]
    pub(crate) fn start(options: Options) -> Self {
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let dir = env::temp_dir().join(format!("orderwheel-test-{}-{number}", std::process::id()));
        // A leftover of an earlier process with the same id.
        drop(fs::remove_dir_all(&dir));
        fs::create_dir_all(&dir).expect("a temporary directory can be made");
        let mut server = Self {
            options,
            dir,
            port: None,
            child: None,
            may_crash: false,
        };
        server.launch();
        server
    }

    /// A server with nothing special.
    #[track_caller]
    pub(crate) fn plain() -> Self {
        Self::start(Options::new())
    }

    /// Starts the process and waits until it answers.
    #[track_caller]
    fn launch(&mut self) {
        for attempt in 1.. {
            if self.options.tcp && self.port.is_none() {
                self.port = Some(free_port());
            }
            let seen = self.log().len();
            self.spawn();
            match self.wait_ready() {
                Ok(()) => return,
                // Somebody else took the port between our look and its bind.
                Err(_) if attempt < 5 && self.log()[seen..].contains("Address already in use") => {
                    self.port = None;
                }
                Err(why) => panic!("the server does not start: {why}\n{}", self.log_tail(60)),
            }
        }
    }

    /// Writes the configuration and starts the process.
    #[track_caller]
    fn spawn(&mut self) {
        let mut lines = vec![
            format!("dir {}", self.dir.display()),
            format!("unixsocket {}", self.socket().display()),
            format!("port {}", self.port.unwrap_or(0)),
            "bind 127.0.0.1".into(),
            "protected-mode no".into(),
            "daemonize no".into(),
            "save \"\"".into(),
            "appendonly no".into(),
            "enable-debug-command yes".into(),
            "latency-monitor-threshold 0".into(),
        ];
        lines.extend(self.options.before_module.iter().cloned());
        if self.options.with_module {
            lines.push(format!(
                "loadmodule {} {}",
                module_path().display(),
                self.options.module_args
            ));
        }
        lines.extend(
            self.options
                .modules
                .iter()
                .map(|path| format!("loadmodule {}", path.display())),
        );
        lines.extend(self.options.lines.iter().cloned());
        let config = self.dir.join("redis.conf");
        fs::write(&config, lines.join("\n") + "\n").expect("the configuration can be written");

        let program = self.program();
        let mut words: Vec<&std::ffi::OsStr> = self
            .options
            .through
            .iter()
            .map(std::ffi::OsStr::new)
            .collect();
        words.push(program.as_os_str());
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_path())
            .expect("a log can be opened");
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .arg(&config)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log can be opened twice"))
            .stderr(log);
        for (name, value) in &self.options.env {
            command.env(name, value);
        }
        match command.spawn() {
            Ok(child) => self.child = Some(child),
            Err(e) => panic!(
                "{} can not be started ({e}): run scripts/setup.sh, or set REDIS_SERVER",
                program.display()
            ),
        }
    }

    /// Waits until the server answers and has loaded its data.
    fn wait_ready(&mut self) -> Result<(), String> {
        let until = Instant::now() + START_LIMIT;
        let mut last = String::from("no answer");
        while Instant::now() < until {
            if let Some(status) = self.exit_status() {
                self.child = None;
                return Err(format!("it ended with {status}"));
            }
            // Not before its own process is there: with a restart in the same
            // directory the socket file of the last one may still lie there.
            let reply = Client::unix(&self.socket())
                .and_then(|mut c| c.try_run(&["PING"], Duration::from_secs(5)));
            match reply {
                Ok(super::Value::Simple(_)) => return Ok(()),
                Ok(other) => last = format!("{other:?}"),
                Err(e) => last = e.to_string(),
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.kill();
        Err(format!("not ready within {START_LIMIT:?}: {last}"))
    }

    /// The program under test: `REDIS_SERVER`, else the machine's own.
    fn program(&self) -> PathBuf {
        self.options
            .program
            .clone()
            .or_else(|| env::var_os("REDIS_SERVER").map(PathBuf::from))
            .unwrap_or_else(|| "redis-server".into())
    }

    /// Whether a server of this program can have a TLS port: some know the setting and
    /// were built without.
    pub(crate) fn speaks_tls(&self) -> bool {
        let done = Command::new(self.program())
            .args([
                "--port",
                "0",
                "--tls-port",
                "1",
                "--tls-cert-file",
                "/dev/null",
            ])
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .output()
            .expect("the program can be started");
        // It ends at once either way: this certificate is none.
        String::from_utf8_lossy(&done.stdout).contains("No tls-key-file configured")
    }

    /// How the process ended, if it did.
    fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok().flatten()
    }

    /// Whether the process runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.is_some() && self.exit_status().is_none()
    }

    /// Its process id.
    #[track_caller]
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("the server runs").id()
    }

    /// Its port.
    #[track_caller]
    pub(crate) fn port(&self) -> u16 {
        self.port.expect("the server was started with a port")
    }

    /// Its directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its socket file.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join("socket")
    }

    /// Where its log is.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// Its log.
    pub(crate) fn log(&self) -> String {
        fs::read(self.log_path())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The last lines of its log.
    fn log_tail(&self, lines: usize) -> String {
        let log = self.log();
        let all: Vec<&str> = log.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// A new connection.
    #[track_caller]
    pub(crate) fn client(&self) -> Client {
        match Client::unix(&self.socket()) {
            Ok(client) => client,
            Err(e) => panic!("no connection to the server ({e}):\n{}", self.log_tail(40)),
        }
    }

    /// A new connection that speaks RESP3.
    #[track_caller]
    pub(crate) fn client3(&self) -> Client {
        let mut client = self.client();
        client.hello(3);
        client
    }

    /// A connection that hears keyspace events of all keys of database 0, both
    /// ways they are published. The events must be switched on.
    #[track_caller]
    pub(crate) fn listener(&self) -> Client {
        let mut client = self.client();
        client.psubscribe(&["__key*__:*"]);
        client
    }

    /// Stops it in good order, as an operator does; its data is saved if the
    /// configuration says so.
    #[track_caller]
    pub(crate) fn stop(&mut self) {
        let mut client = self.client();
        client.send(&["SHUTDOWN"]);
        self.wait_end();
    }

    /// Waits for the end of the process.
    #[track_caller]
    pub(crate) fn wait_end(&mut self) -> ExitStatus {
        let status = wait_for(START_LIMIT, "the server's end", || self.exit_status());
        self.child = None;
        status
    }

    /// Kills it as a power cut does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only for a process that has ended, which is the aim.
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// Sends it a signal by name: `STOP`, `CONT`, `TERM`.
    #[track_caller]
    pub(crate) fn signal(&self, name: &str) {
        let done = Command::new("sh")
            .args([
                "-c",
                "kill -s \"$1\" \"$2\"",
                "sh",
                name,
                &self.pid().to_string(),
            ])
            .status()
            .expect("a shell can be started");
        assert!(done.success(), "kill -s {name}");
    }

    /// Starts it again in the same directory, after [`Server::stop`] or
    /// [`Server::kill`].
    #[track_caller]
    pub(crate) fn start_again(&mut self) {
        assert!(self.child.is_none(), "the server still runs");
        // Of a killed process; else its clients could be taken for ready.
        drop(fs::remove_file(self.socket()));
        self.launch();
    }

    /// Stops it in good order and starts it again on what it saved.
    #[track_caller]
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// Kills it and starts it again on what had reached the disk.
    #[track_caller]
    pub(crate) fn kill_and_restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// How the next start is done: to change lines between two starts.
    pub(crate) fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }

    /// Says that a crash or a caught panic is what the test is about.
    pub(crate) fn may_crash(&mut self) {
        self.may_crash = true;
    }

    /// Waits until this replica has all that `primary` has written.
    #[track_caller]
    pub(crate) fn wait_in_sync(&self, primary: &Self) {
        let (mut here, mut there) = (self.client(), primary.client());
        wait_for(START_LIMIT, "the replica to be in sync", || {
            let says =
                |c: &mut Client, text| c.run(&args!["INFO", "replication"]).text().contains(text);
            // The primary counts it in only when it has heard from it: a failover to it
            // is refused until then.
            let up = says(&mut here, "master_link_status:up") && says(&mut there, "state=online");
            let at = |c: &mut Client, field| c.info_number("replication", field);
            (up && at(&mut here, "slave_repl_offset") >= at(&mut there, "master_repl_offset"))
                .then_some(())
        });
    }

    /// Why the server is not in order, if it is not.
    fn complaint(&mut self) -> Option<String> {
        let log = self.log();
        if let Some(line) = log
            .lines()
            .find(|line| line.contains("BUG REPORT START") || line.contains("panicked at"))
        {
            return Some(format!("the server crashed: {line}"));
        }
        if let Some(status) = self.exit_status() {
            return Some(format!("the server ended by itself: {status}"));
        }
        self.child.as_ref()?;
        // It may hang for a reason of the test's (SIGSTOP, a pause): no answer is no complaint.
        let mut client = Client::unix(&self.socket()).ok()?;
        let info = client
            .try_run(&["INFO", "orderwheel"], Duration::from_millis(500))
            .ok()?;
        let panics = match info {
            super::Value::Bulk(_) | super::Value::Verbatim(_) => {
                info.text().lines().find_map(|line| {
                    line.strip_prefix("orderwheel_panics_total:")
                        .map(str::to_owned)
                })?
            }
            _ => return None,
        };
        (panics != "0").then(|| format!("the module caught {panics} panics"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let complaint = if self.may_crash || thread::panicking() {
            None
        } else {
            self.complaint()
        };
        self.kill();
        if complaint.is_some() || thread::panicking() {
            eprintln!(
                "--- log of {} ---\n{}\n---",
                self.dir.display(),
                self.log_tail(60)
            );
        }
        if env::var_os("ORDERWHEEL_KEEP").is_none() {
            // A directory that can not be removed is no reason to fail.
            drop(fs::remove_dir_all(&self.dir));
        }
        if let Some(why) = complaint {
            panic!("{why}");
        }
    }
}

/// A port of this machine that nobody listens on now.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener
        .local_addr()
        .expect("a bound socket has an address")
        .port();
    // A cluster node also needs this port plus 10000.
    if port > 50000 { free_port() } else { port }
}

/// Reads a file of a server's directory, such as an append-only file.
#[track_caller]
pub(crate) fn read_file(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    std::io::Read::read_to_end(&mut file, &mut bytes).expect("the file can be read");
    bytes
}
