# SPDX-License-Identifier: Apache-2.0
"""Belay for Python programs that run under libbelay-nccl: pass marks, health, verdict. Needs nothing but ctypes, and may
be imported anywhere: without libbelay-nccl in the process marks do nothing and there are no communicators.

    import belay

    with belay.one_pass(torch.cuda.current_stream().cuda_stream):
        logits = model(tokens)              # all its allreduces belong to one pass

    for comm in belay.communicators():
        print(comm.id, comm.rank, comm.health().missing, comm.verdict())

Marks may be captured into a CUDA graph: each replay is a pass then. They stand on the stream that the allreduces are
on; with torch.distributed (2.8 or newer) that is the current one, unless async_op=True.
"""
import contextlib
import ctypes
import os

__all__ = ["Health", "PassError", "Place", "Verdict", "active", "communicators", "one_pass", "pass_begin", "pass_end"]

CAUSES = ("none", "peer_lost", "peer_stuck", "mismatch", "gpu_fault", "nccl_failed", "aborted", "internal")


class PassError(RuntimeError):
    """A mark that belay refused; `status` is its number (docs/statuses.md)."""

    def __init__(self, what, status, text):
        super().__init__(f"{what}: {text} ({status})")
        self.status = status


class Verdict(ctypes.Structure):
    """struct belay_verdict of belay.h."""

    _fields_ = [("size", ctypes.c_size_t), ("seq", ctypes.c_uint64), ("pass_number", ctypes.c_uint64),
                ("cause_number", ctypes.c_int), ("status", ctypes.c_int), ("rank", ctypes.c_int),
                ("proposer", ctypes.c_int), ("raw_text", ctypes.c_char * 512)]

    @property
    def cause(self):
        """Its name, such as "peer_lost"."""
        return CAUSES[self.cause_number] if 0 <= self.cause_number < len(CAUSES) else "unknown"

    @property
    def text(self):
        """One line for a person."""
        return self.raw_text.decode("utf-8", "replace")

    def __str__(self):
        return f"{self.cause}: {self.text}"


class Health(ctypes.Structure):
    """struct belay_health of belay.h."""

    _fields_ = [("size", ctypes.c_size_t), ("seq", ctypes.c_uint64), ("done_seq", ctypes.c_uint64),
                ("pass_number", ctypes.c_uint64), ("age_ns", ctypes.c_uint64), ("in_call", ctypes.c_int),
                ("path", ctypes.c_int), ("breaker", ctypes.c_int), ("missing", ctypes.c_uint64),
                ("has_verdict", ctypes.c_int), ("last_path", ctypes.c_int), ("last_algorithm", ctypes.c_int)]


class Place(ctypes.Structure):
    """struct belay_place of belay.h: rank, nranks: in NCCL's communicator; host, hosts: over how many that is, and which
    of them this is, from 1. A communicator of belay's numbers the ranks of its own host."""

    _fields_ = [("size", ctypes.c_size_t), ("hosts", ctypes.c_int), ("host", ctypes.c_int), ("nranks", ctypes.c_int),
                ("rank", ctypes.c_int)]


def _find_client():
    """libbelay-nccl, if it is in this process: preloaded, or loaded in NCCL's place."""
    everything = ctypes.CDLL(None)
    if hasattr(everything, "belay_nccl_comm"):
        return everything
    for variable in ("VLLM_NCCL_SO_PATH", "SGLANG_NCCL_SO_PATH"):
        file = os.environ.get(variable)
        if file:
            with contextlib.suppress(OSError, AttributeError):
                client = ctypes.CDLL(file, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
                client.belay_nccl_comm  # pylint: disable=pointless-statement
                return client
    return None


def _declare(client):
    """The functions used of it and of the libbelay that it has loaded, found through it."""
    client.belay_nccl_comm.restype = ctypes.c_void_p
    client.belay_nccl_comm.argtypes = [ctypes.c_uint]
    for mark in (client.belay_nccl_pass_begin, client.belay_nccl_pass_end):
        mark.restype = ctypes.c_int
        mark.argtypes = [ctypes.c_void_p]
    for name, result in (("id", ctypes.c_char_p), ("rank", ctypes.c_int), ("nranks", ctypes.c_int)):
        function = getattr(client, "belay_comm_" + name)
        function.restype = result
        function.argtypes = [ctypes.c_void_p]
    client.belay_comm_verdict.argtypes = [ctypes.c_void_p, ctypes.POINTER(Verdict)]
    client.belay_comm_health.argtypes = [ctypes.c_void_p, ctypes.POINTER(Health)]
    client.belay_comm_place.argtypes = [ctypes.c_void_p, ctypes.POINTER(Place)]
    client.belay_status_text.restype = ctypes.c_char_p
    return client


_client = None


def _library():
    global _client
    if _client is None:
        found = _find_client()
        _client = _declare(found) if found else None
    return _client


def active():
    """True when libbelay-nccl is in this process."""
    return _library() is not None


class Communicator:
    """One of belay's communicators. Not to be kept beyond the life of NCCL's that it belongs to."""

    def __init__(self, client, handle):
        self._client, self._handle = client, handle
        self.id = client.belay_comm_id(handle).decode()
        self.rank = client.belay_comm_rank(handle)
        self.nranks = client.belay_comm_nranks(handle)

    def place(self):
        """Where it stands among the ranks of NCCL's communicator, which may be on several hosts."""
        place = Place(size=ctypes.sizeof(Place))
        self._client.belay_comm_place(self._handle, ctypes.byref(place))
        return place

    def health(self):
        """Where it stands, as seen from this process."""
        health = Health(size=ctypes.sizeof(Health))
        self._client.belay_comm_health(self._handle, ctypes.byref(health))
        return health

    def verdict(self):
        """Its one verdict, or None."""
        verdict = Verdict(size=ctypes.sizeof(Verdict))
        return verdict if self._client.belay_comm_verdict(self._handle, ctypes.byref(verdict)) == 0 else None


def communicators():
    """Those that belay serves, the newest first."""
    client, found = _library(), []
    while client:
        handle = client.belay_nccl_comm(len(found))
        if not handle:
            break
        found.append(Communicator(client, handle))
    return found


def _mark(name, stream):
    client = _library()
    if client is None:
        return
    status = getattr(client, name)(stream)
    if status:
        raise PassError(name, status, client.belay_status_text(status).decode())


def pass_begin(stream=0):
    """A pass begins on every communicator; `stream`: a cudaStream_t as a number, 0 the legacy default one."""
    _mark("belay_nccl_pass_begin", stream)


def pass_end(stream=0):
    """... and ends. Raises PassError, as pass_begin() does, when belay refuses the mark."""
    _mark("belay_nccl_pass_end", stream)


@contextlib.contextmanager
def one_pass(stream=0):
    """What is enqueued inside belongs to one pass. An exception leaves the pass open for the verdict to end."""
    pass_begin(stream)
    yield
    pass_end(stream)
