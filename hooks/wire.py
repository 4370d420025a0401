"""The wire format between the job and the profiler: span records, files and facts of the spool.

A spool folder holds, for every process of the job that the hooks reached:

    PID-HEX.facts   JSON lines: who the process is, its loaders, optimizers, models (`FACT_*`)
    PID-HEX.ring    an mmap ring of 32-byte span records behind a 4096-byte header (`HEADER`)

and `tracer`, in which the launcher says its pid (see tracing.py).

All of it is untrusted input to the reader. HEX is the start time in ns: a reused pid is a new file.
The version is checked before anything else is read; another version is refused, not misread.
"""

import struct

VERSION = 1
MAGIC = b"ACPROF\x00\x00"
HEADER_SIZE = 4096
RECORD_SIZE = 32
RING_RECORDS = 1 << 15  # 1 MiB a process: 30 s at 1000 spans a second

# magic, version, capacity in records, pid, wall clock ns minus perf_counter_ns at opening
HEADER = struct.Struct("@8sQQQq")
# A word in the header that the profiler writes and the hooks read (capture requests): a counter
# that grows by one with each request, with the number of steps in its low 8 bits.
CONTROL_OFFSET = 64
CONTROL = struct.Struct("@Q")
# start (perf_counter_ns), duration ns, meta, sequence number (1, 2, ...; written last)
# Record n lies in slot n & (capacity - 1); the capacity is a power of two.
RECORD = struct.Struct("@QQQQ")

# meta = kind | flags << 8 | ident << 16 | value << 32
KIND_MASK, FLAG_SHIFT, IDENT_SHIFT, VALUE_SHIFT = 0xFF, 8, 16, 32
VALUE_MAX = (1 << 32) - 1
IDENT_MAX = (1 << 16) - 1

# Span kinds. `ident` and `value` per kind:
DATA_WAIT = 1  # training thread waits in a loader; ident loader, value CPU time of the thread, us
BATCH = 2  # the samples of a loader's batches from now on; ident loader, value samples
FETCH = 3  # one batch made (worker, or in process); ident worker + 1 (0: in process), value CPU us
COLLATE = 4  # the collate part of a fetch; ident as FETCH
H2D = 5  # a copy between host and device as the host saw it; value KiB
FORWARD = 6  # a root module's call; ident root module, value samples or tokens when known, or
# with F_CALLS the number of short calls, one right after the other, that this record stands for
BACKWARD = 7
OPTIMIZER = 8  # one optimizer step; ident optimizer
CHECKPOINT = 9  # torch.save and its like
FSYNC = 10  # os.fsync / os.fdatasync on any thread
LOGGING = 11  # a metrics logger's call; ident logger
EVALUATION = 12  # only where the framework says so itself
COLLECTIVE = 13  # a call into torch.distributed as the host saw it
STEP_MARK = 14  # accelprof.step(): steps end here and only here from now on
SAMPLES = 15  # accelprof.samples(n); value n
PHASE = 16  # accelprof.phase(name); ident phase
# The operator capture: a record of no length where it starts, one from there to where its trace is
# written when it is. Steps touching it are left out.
CAPTURE = 17
GC = 18  # the garbage collector ran; ident generation
# What the device did in a span of the kind `ident` that starts at the same time: the length is the
# device's time between the borders of that span. In a wait for data it is the device's idle time.
DEVICE = 19

# Flags (any kind)
F_OTHER_THREAD = 0x80  # not the thread that imported torch
F_RAISED = 0x40  # the call raised
# Flags of DATA_WAIT
F_ITER_START = 0x01  # the making of the iterator (workers start here)
F_ITER_END = 0x02  # the call that raised StopIteration
F_NO_CPU = 0x04  # the value was not measured
# Flags of FORWARD
F_GRAD = 0x01  # grad mode was on
F_TRAINING = 0x02  # module.training was true
F_CALLS = 0x04  # the value is a number of calls

# Facts: a JSON object a line, {"k": FACT, ...}; unknown keys and facts are skipped by readers.
FACT_PROCESS = (
    "process"  # pid ppid start_ns python executable argv flags rank local_rank world_size
)
FACT_TORCH = "torch"  # version cuda
# id num_workers batch_size prefetch pin_memory persistent context dataset length where
FACT_LOADER = "loader"
FACT_OPTIMIZER = "optimizer"  # id name parameters tensors bytes state_bytes foreach fused where
FACT_ROOT = "root"  # id name parameters bytes threads dtype where
FACT_LOGGER = "logger"  # id name
FACT_PHASE = "phase"  # id name
FACT_WORKER = "worker"  # worker parent (pid): this process is a loader worker
FACT_GROUP = "group"  # rank world_size backend: torch.distributed was initialised
FACT_PARALLEL = "parallel"  # name bytes unused: a model was wrapped for several ranks
DATA_PARALLEL = "DataParallel"  # the name of one that threads of this process share; has `devices`
FACT_CAPTURE = "capture"  # file start_ns end_ns steps: a Kineto trace in the spool folder
FACT_HOOK_OFF = "hook_off"  # hook error: a hook that failed and switched itself off
FACT_TUNED = "tuned"  # where: a loader that a trial of `accelprof tune` changed
# names operators: packages of other makers that are loaded, namespaces of their CUDA operators
FACT_LIBRARIES = "libraries"
FACT_NOTE = "note"  # text: anything the report should say (capture skipped and why, ...)
# what (memory | worker) error text: an error that passed a hook; the job may have handled it
FACT_FAILURE = "failure"
# reserved allocated inactive_split retries: what CUDA's allocator counts, bytes and times
FACT_ALLOCATOR = "allocator"
FACT_TRACED = "traced"  # by: names of what runs at each line or call of the training thread
FACT_EMPTIED = "emptied"  # calls where: torch.cuda.empty_cache(), told at 1, 10, 100, ... calls
FACT_COPY_IN_DATA = "copy_in_data"  # where: a batch was copied to a device while it was made
FACT_EXIT = "exit"  # the interpreter ended in order

TRACER = "tracer"  # a file of the spool
ENV_SPOOL = "ACCELPROF_SPOOL"  # the spool folder; set by `accelprof run`
ENV_DISABLE = "ACCELPROF_DISABLE"  # "1": hooks stay off in this process tree
ENV_CAPTURE = "ACCELPROF_CAPTURE"  # auto | off | STEP
ENV_TUNE = (
    "ACCELPROF_TUNE"  # JSON, only in a trial of `accelprof tune`: see frameworks/overrides.py
)
ENV_PYTHONPATH = "ACCELPROF_PYTHONPATH"  # the job's own PYTHONPATH, absent when it had none
