"""The command line, run in this process."""

from __future__ import annotations

from typer.testing import CliRunner

from seqboost.cli import app


def run(*args, code=0):
    """Run a command as a user types it; it must end with this exit code."""
    done = CliRunner().invoke(app, [str(arg) for arg in args])
    assert done.exit_code == code, (done.output, done.exception)
    return done
