"""The observations of a lab about streams, sample orders and resuming."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dataguard.lab.spy.sample_ledger import depth_of
from dataguard.lab.streams import rank_awareness, sampler_order, stream_counts, stream_order
from dataguard.lab.streams.resume import Resumes, find_resumes
from dataguard.lab.streams.sampler_order import Contents, Orders
from dataguard.lab.streams.stream_order import StreamOrder
from dataguard.lab.streams.stream_trace import Request, StreamTrace, read_stream, run_stream
from dataguard.lab.subject import Subject
from dataguard.model import NotApplicable


class Streams:
    """Observations of a stream, or of the sample order of a map-style loader; each is made once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def stream(self, num_workers: int, *, seeded: bool, **asked: Any) -> StreamTrace:
        """What a stream yields with so many workers; the other arguments are those of `Request`."""
        return self._stream(Request(num_workers, seeded, **asked))

    def shares(self, num_workers: int, **asked: Any) -> StreamTrace:
        """Like `stream`, to compare which worker reads what: the whole stream if all samples are requested.

        Samples are recognised by the user's key function, if the settings name one.
        """
        return self._stream(self.whole_if_asked(Request(num_workers, key=self._subject.settings.key, **asked)))

    def _stream(self, request: Request) -> StreamTrace:
        subject = self._subject
        if subject.facts.kind != "stream":
            raise NotApplicable("the dataset is map-style: its sampler distributes the indices")
        ranks = rank_awareness.world(subject) if rank_awareness.is_declared(subject) else 1
        samples = subject.facts.stream_sample_count(subject.settings.samples) * ranks
        return subject.vary(
            request,
            lambda folder: run_stream(subject.build, folder, request, samples, self.seconds_of(request)),
            lambda folder, drive: read_stream(folder, drive, request.depth),
            unbounded=request.whole,
        )

    def whole_if_asked(self, request: Request) -> Request:
        """The request, for the whole stream if the settings request all samples."""
        subject = self._subject
        if not subject.settings.all:
            return request
        return replace(request, whole=True, depth=depth_of(subject.epoch.read or 0))

    def seconds_of(self, request: Request) -> float:
        """Most seconds to read one epoch of a stream."""
        return self._subject.settings.budget * (1 if request.whole else 0.1)

    @property
    def orders(self) -> Orders:
        """The order in which the loader requests its samples in three epochs (map-style only)."""
        subject = self._subject
        subject.need_map("a stream has no sampler")
        return subject.vary("orders", lambda _: sampler_order.run_orders(subject.build, subject.facts.length))

    @property
    def stream_order(self) -> StreamOrder:
        """Whether a stream has one order in all epochs, and a constant seed that decides it."""
        subject = self._subject
        subject.afford_reads("stream order", (stream_order.EPOCHS + 1) * stream_order.MOST)
        return subject.vary("stream order", lambda folder: stream_order.find_stream_order(subject.build, folder))

    def has_fixed_counts(self, workers: int) -> bool:
        """Whether one process, and each of so many workers, yield as many samples whatever generators draw."""
        subject = self._subject
        subject.afford_reads("stream counts", 2 * stream_counts.RUNS * (subject.epoch.read or 0))
        return stream_counts.are_fixed(
            subject.vary(
                ("stream counts", workers), lambda folder: stream_counts.read_counts(subject.build, folder, workers)
            )
        )

    @property
    def contents(self) -> Contents:
        """Which samples a few indices of the loader's order give in two epochs (map-style only)."""
        subject = self._subject
        subject.afford_reads("contents", 4 * sampler_order.PROBES)
        order = self.orders.epochs[0]
        return subject.vary("contents", lambda _: sampler_order.run_contents(subject.build(), order))

    def resumes(self, workers: int) -> Resumes:
        """What the loader yields after an interruption and a restore, with so many workers."""
        return find_resumes(self._subject, workers)
