"""Random commands against a real server, and a naive model that knows what docs/commands.md says and nothing else."""
