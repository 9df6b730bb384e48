"""A network in onnxruntime, on this processor and with the threads of torch."""

from pathlib import Path

import onnxruntime
import torch


def onnx_session(path: Path) -> onnxruntime.InferenceSession:
    """A session whose threads sleep between runs, so that what is timed next has all cores."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
