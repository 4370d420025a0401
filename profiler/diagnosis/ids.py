"""The ids that findings have: what a gate may forbid."""

FINDING_IDS = frozenset({
    "checkpoint-heavy", "collate", "cpu-limit", "cpu-oversubscribed", "decode", "decode-cpu",
    "device-lost", "epoch-stall", "evaluation-heavy", "exposed-collective", "fragmentation", "gc",
    "gil", "good", "hand-off", "idle-device", "link-degraded", "loader-in-process", "logging",
    "logging-heavy", "memory-capacity", "memory-growth", "mixed-hardware", "no-telemetry",
    "optimizer", "out-of-memory", "oversized-cluster", "precision", "python", "rank-imbalance",
    "recompiles", "remote-data", "shape-variation", "shared-device", "shm-small", "small-batch",
    "small-kernels", "stalled", "step-outliers", "storage", "straggler", "synchronisation",
    "throttled", "too-few-workers", "too-often", "unfused-ops", "unpinned",
    "upgrade-would-not-help", "worker-died", "worker-restart", "wrong-hardware", "xid",
})  # fmt: skip
