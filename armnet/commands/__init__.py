"""The commands, one module each: ``add_arguments(parser)`` and ``run(args) -> exit status``; the module's docstring
is its help.

Modules import what they need inside ``run``, so that ``armnet run`` starts with NumPy alone.
"""

COMMANDS = {
    "bench": "time an inference beside other runtimes",
    "export": "translate a trained network into a pair of protobufs",
    "run": "run a pair on arrays or pictures",
    "compare": "run the original beside the pair and name the first blob that diverges",
    "device": "test, run, time and count on emulated ARM and over ssh",
    "doctor": "say what this machine is, what slows it, and whether a network fits",
    "inspect": "list a pair's operators with engines, shapes, parameters and costs",
    "optimize": "make a pair cheaper: fold, fuse, share, remove",
    "pack": "make one file of a pair and the runtime, with a self-test",
    "profile": "show where the time of an inference goes, operator by operator",
    "support": "say, before conversion, which operators of a network are missing",
}
