"""Images and videos that are decoded later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.loaders.held.kinds import SIZE, VALUES, kind, stored


def _png(path: Path) -> None:
    from PIL import Image

    Image.fromarray(np.array([VALUES], "u1")).save(path, "PNG")


@kind(workers=0, needs="PIL")
def lazy_image():
    from PIL import Image

    return Image.open(stored("data.png", _png)), lambda held, index: held.getpixel((index, 0))


def _video(path: Path) -> None:
    import av

    with av.open(str(path), "w", format="avi") as container:
        stream = container.add_stream("ffv1", rate=10)
        stream.width = stream.height = 16
        stream.pix_fmt = "gray"
        for number in VALUES:
            frame = av.VideoFrame.from_ndarray(np.full((16, 16), number, "u1"), format="gray")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


@kind(workers=0, needs="av")
def av_container():
    import av

    container = av.open(str(stored("data.avi", _video)))
    container.streams.video[0].thread_type = "NONE"

    def read(container: Any, index: int) -> int:
        container.seek(0)
        for number, frame in enumerate(container.decode(video=0)):
            if number == index:
                return int(frame.to_ndarray().flat[0])
        raise IndexError(index)

    return container, read


def _grey_video(path: Path) -> None:
    import cv2

    made = path.with_suffix(".made.avi")
    writer = cv2.VideoWriter(str(made), cv2.VideoWriter.fourcc(*"FFV1"), 10, (16, 16))
    for number in VALUES:
        writer.write(np.full((16, 16, 3), number, "u1"))
    writer.release()
    made.rename(path)


@kind(workers=0, needs="cv2")
def video_capture():
    import cv2

    capture = cv2.VideoCapture(str(stored("grey.avi", _grey_video)), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])

    def read(capture: Any, index: int) -> int:
        capture.set(cv2.CAP_PROP_POS_FRAMES, index)
        good, frame = capture.read()
        assert good
        return VALUES[index] if abs(int(frame.flat[0]) - VALUES[index]) <= 1 else int(frame.flat[0])

    return capture, read


def _nifti(path: Path) -> None:
    import nibabel

    made = path.with_suffix(".made.nii")
    nibabel.save(nibabel.Nifti1Image(np.array(VALUES, "i2").reshape(1, 1, SIZE), np.eye(4)), made)
    made.rename(path)


@kind(needs="nibabel")
def nibabel_proxy():
    import nibabel

    held = nibabel.Nifti1Image.from_filename(stored("data.nii", _nifti))
    return held, lambda held, index: held.dataobj[0, 0, index]


@kind(workers=0, needs="nibabel")
def nibabel_kept_open():
    import nibabel

    held = nibabel.Nifti1Image.from_filename(stored("data.nii", _nifti), keep_file_open=True)
    held.dataobj[0, 0, 0]
    return held, lambda held, index: held.dataobj[0, 0, index]


def _tiff(path: Path) -> None:
    import tifffile

    tifffile.imwrite(path, np.array([VALUES], "u1"))


@kind(needs="tifffile")
def tiff_memmap():
    import tifffile

    return tifffile.memmap(stored("data.tif", _tiff), mode="r"), lambda held, index: held[0, index]


@kind(workers=0, needs="tifffile")
def tiff_file():
    import tifffile

    return tifffile.TiffFile(stored("data.tif", _tiff)), lambda held, index: held.asarray()[0, index]


@kind(workers=0, needs="imageio")
def imageio_reader():
    import imageio.v2 as imageio

    return imageio.get_reader(stored("data.png", _png)), lambda held, index: held.get_data(0)[0, index]
