"""The cases: which server, how many replicas of it, how they share the GPU, and which cores they may use.

Each request is run eagerly, in a closed loop, and its host waits in torch.cuda.synchronize, which spins.  Servers are networks of ../networks
whose host takes most of a request.
"""
SERVERS = ("decode_2k", "resnet50_b1")
MODES = ("mps", "timeslice")  # each replica is a process; timeslice: without MPS
REPLICAS = 4
CORES = {"enough": (0, (1, 2, 3, 4)), "one": (1, (1, 2, 4)), "two": (2, (2, 3, 4))}  # cores that all replicas are pinned to, 0: not pinned; replicas


def cases():
    """(server, mode, cores, replicas), as they are measured."""
    return [(server, mode, cores, n) for server in SERVERS for mode in MODES for cores, (_, counts) in CORES.items() for n in counts]
