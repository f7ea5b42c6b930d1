"""One logger, silent unless it is configured or ``verbose`` asks for lines."""

from __future__ import annotations

import io
import logging
import subprocess
import sys

import pytest

from seqboost.core.logs import LOGGER, get_logger, shown

logger = get_logger("seqboost.chain.exact.joint")


@pytest.fixture(autouse=True)
def root(monkeypatch):
    """A root logger that nothing has configured: that of pytest has handlers."""
    root = logging.Logger("root", logging.WARNING)
    monkeypatch.setattr(LOGGER, "parent", root)
    monkeypatch.setattr(LOGGER, "handlers", [logging.NullHandler()])
    LOGGER.setLevel(logging.NOTSET)  # forgets what was enabled
    yield root
    LOGGER.setLevel(logging.NOTSET)
    assert len(LOGGER.handlers) == 1


def handler_of(target: logging.Logger, level: int = logging.NOTSET) -> io.StringIO:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setLevel(level)
    target.handlers.append(handler)
    return stream


def test_children_by_package():
    assert logger.name == "seqboost.chain"
    assert get_logger("seqboost.callbacks").parent is LOGGER


def test_silent_unless_asked(capsys):
    logger.info("one")
    with shown(0):
        logger.info("two")
    with shown(1):
        logger.info("three")
        logger.debug("four")
    logger.info("five")
    assert capsys.readouterr() == ("", "three\n")
    assert not logger.isEnabledFor(logging.INFO)


def test_handlers_of_the_program_come_first(root, capsys):
    found = handler_of(root)
    with shown(2):
        logger.info("one")
    logger.info("two")
    assert found.getvalue() == "one\n"
    assert capsys.readouterr().err == ""


def test_handlers_that_leave_info_out_do_not_count(root, capsys):
    found = handler_of(root, logging.WARNING)
    with shown(1):
        logger.info("one")
    assert (found.getvalue(), capsys.readouterr().err) == ("", "one\n")


def test_handlers_that_are_not_reached_do_not_count(root, capsys, monkeypatch):
    found = handler_of(root)
    with monkeypatch.context() as patch:
        patch.setattr(LOGGER, "propagate", False)
        with shown(1):
            logger.info("one")
    assert (found.getvalue(), capsys.readouterr().err) == ("", "one\n")


@pytest.mark.parametrize(("level", "expected"), [(logging.WARNING, ""), (logging.DEBUG, "one\ntwo\n")])
def test_a_level_of_the_program_stays(capsys, level, expected):
    LOGGER.setLevel(level)
    with shown(1):
        logger.info("one")
        logger.debug("two")
    assert capsys.readouterr().err == expected
    assert LOGGER.level == level


def test_the_last_of_several_fits_takes_it_away(capsys):
    first, second = shown(1), shown(2)
    first.__enter__()
    second.__enter__()
    logger.info("one")
    first.__exit__(None, None, None)
    logger.info("two")
    second.__exit__(None, None, None)
    logger.info("three")
    assert capsys.readouterr().err == "one\ntwo\n"


def test_errors_take_it_away(capsys):
    with pytest.raises(RuntimeError), shown(1):
        raise RuntimeError
    logger.info("one")
    assert capsys.readouterr().err == ""


def test_root_is_not_configured():
    code = (
        "import logging, seqboost.estimators; print(logging.getLogger().handlers, logging.getLogger('seqboost').level)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] 0"
