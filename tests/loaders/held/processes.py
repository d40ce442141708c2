"""Threads, processes, and what they share."""

from __future__ import annotations

import asyncio
import http.client
import http.server
import logging
import logging.handlers
import multiprocessing
import queue
import socket
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import shared_memory, sharedctypes
from typing import Any

from tests.loaders.held.kinds import BYTES, SIZE, VALUES, folder, kind, looked_up, value


@kind(anew="shared memory")
def process_primitives():
    event = multiprocessing.Event()
    event.set()
    locks = (multiprocessing.Lock(), multiprocessing.RLock(), multiprocessing.Condition())
    return (*locks, multiprocessing.BoundedSemaphore(2), event, multiprocessing.Barrier(1)), _passed


def _passed(held: Any, index: int) -> int:
    *locks, event, barrier = held
    for lock in locks:
        with lock:
            pass
    return int(value(index) * event.is_set() + barrier.wait(5))


@kind(anew="shared memory")
def process_arrays():
    held = (multiprocessing.Value("i", 1), multiprocessing.Array("i", VALUES), sharedctypes.RawArray("i", VALUES))
    return held, lambda held, index: held[0].value * held[1][index] * (held[1][index] == held[2][index])


@kind(anew="shared memory")
def named_shared_memory():
    held = shared_memory.SharedMemory(create=True, size=SIZE)
    assert held.buf is not None
    held.buf[:SIZE] = BYTES
    return held, lambda held, index: held.buf[index]


@kind(anew="shared memory")
def shareable_list():
    return shared_memory.ShareableList(VALUES), looked_up


@kind(anew="processes")
def manager_list():
    manager = multiprocessing.Manager()
    return (manager, manager.list(VALUES)), lambda held, index: held[1][index]


@kind(workers=0, anew="shared memory")
def process_queue():
    return multiprocessing.Queue(), lambda held, index: (held.put(value(index)), held.get(timeout=5))[1]


@kind(workers=0, anew="shared memory")
def simple_queue():
    return multiprocessing.SimpleQueue(), lambda held, index: (held.put(value(index)), held.get())[1]


@kind(workers=0, anew="sockets or pipes")
def connection():
    return multiprocessing.Pipe(), lambda held, index: (held[0].send(value(index)), held[1].recv())[1]


@kind(workers=0)
def idle_threads():
    return ThreadPoolExecutor(2), lambda held, index: held.submit(value, index).result(5)


@kind(workers=0, anew="threads")
def busy_threads():
    held = ThreadPoolExecutor(2)
    held.submit(value, 1).result()
    return held, lambda held, index: held.submit(value, index).result(5)


@kind(workers=0, anew="shared memory")
def idle_processes():
    return ProcessPoolExecutor(1), lambda held, index: held.submit(value, index).result(20)


@kind(workers=0, anew="threads")
def busy_processes():
    held = ProcessPoolExecutor(1)
    held.submit(value, 1).result()
    return held, lambda held, index: held.submit(value, index).result(20)


@kind(workers=0, anew="threads", undecided=True)
def process_pool():
    return multiprocessing.Pool(1), lambda held, index: held.apply(value, (index,))


@kind(workers=0, anew="processes", undecided=True)
def child_process():
    code = "import sys\nfor line in sys.stdin: print(3 * int(line) + 1, flush=True)"
    held = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(held: Any, index: int) -> str:
        held.stdin.write(f"{index}\n")
        held.stdin.flush()
        line: str = held.stdout.readline()
        return line

    return held, read


@kind(workers=0, anew="sockets or pipes")
def socket_pair():
    return socket.socketpair(), lambda held, index: (held[0].send(BYTES[index : index + 1]), held[1].recv(1)[0])[1]


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = str(value(int(self.path[1:]))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@kind(workers=0, anew="threads")
def http_session():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    session = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    session.connect()

    def read(held: Any, index: int) -> bytes:
        held[1].request("GET", f"/{index}")
        body: bytes = held[1].getresponse().read()
        return body

    return (server, session), read


@kind(workers=0, anew="threads")
def prefetching_thread():
    asked: queue.Queue[int] = queue.Queue()
    answered: queue.Queue[int] = queue.Queue()

    def serve() -> None:
        while True:
            answered.put(value(asked.get()))

    threading.Thread(target=serve, daemon=True).start()
    return (asked, answered), lambda held, index: (held[0].put(index), held[1].get(timeout=5))[1]


@kind(workers=0, anew="threads")
def waiting_timer():
    timer = threading.Timer(600, print)
    timer.daemon = True
    timer.start()
    return timer, lambda timer, index: value(index) * timer.is_alive()


async def _later(index: int) -> int:
    await asyncio.sleep(0)
    return value(index)


@kind(workers=0, anew="sockets or pipes")
def event_loop():
    return asyncio.new_event_loop(), lambda held, index: held.run_until_complete(_later(index))


def _logger(name: str, handler: logging.Handler) -> logging.Logger:
    logger = logging.getLogger(f"held.{name}")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    for old in logger.handlers[:]:
        logger.removeHandler(old)
    logger.addHandler(handler)
    return logger


def _logged(logger: logging.Logger, index: int) -> int:
    logger.info("sample %d", index)
    return value(index)


@kind()
def log_file():
    return _logger("file", logging.FileHandler(folder() / "file.log")), _logged


@kind(workers=0)
def rotating_log():
    handler = logging.handlers.RotatingFileHandler(folder() / "rotating.log", maxBytes=500, backupCount=2)
    return _logger("rotating", handler), _logged


@kind()
def log_in_memory():
    target = logging.FileHandler(folder() / "memory.log")
    return _logger("memory", logging.handlers.MemoryHandler(1000, target=target)), _logged


@kind(workers=0, anew="threads")
def log_through_queue():
    entries: queue.Queue[Any] = queue.Queue()
    listener = logging.handlers.QueueListener(entries, logging.FileHandler(folder() / "queue.log"))
    listener.start()
    logger = _logger("queue", logging.handlers.QueueHandler(entries))
    return (logger, listener), lambda held, index: _logged(held[0], index)
