"""`scalednl demo` as a person meets it; what it does is tested in tests/lab/demo."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path


def test_interrupted_it_can_be_resumed(tmp_path: Path) -> None:
    """Ctrl-C ends it with 130 and a sentence, and the first run can be resumed."""
    command = [sys.executable, "-m", "scalednl", "demo", "--threads", "1", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    result = tmp_path / "pairs-plain" / "result.json"
    deadline = time.monotonic() + 120
    while not result.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "the same command resumes" in errors
    assert "Traceback" not in errors
    assert json.loads(result.read_text())["status"] == "interrupted"
