-- One file a run. Units stand in the names; t_ns are UTC nanoseconds since the epoch.
-- A missing reading is NULL and `gap` says why. Version: see meta.
CREATE TABLE IF NOT EXISTS meta (key VARCHAR PRIMARY KEY, value VARCHAR);

-- exactly one row
CREATE TABLE IF NOT EXISTS run (
    id VARCHAR, name VARCHAR, command VARCHAR[], cwd VARCHAR, host VARCHAR, "user" VARCHAR,
    started_ns BIGINT, ended_ns BIGINT, exit_status INTEGER,
    state VARCHAR,                  -- running | finished | failed | killed | lost
    tags MAP(VARCHAR, VARCHAR), note VARCHAR,
    git_commit VARCHAR, git_dirty BOOLEAN,
    environment JSON,               -- {"python": "3.11.7", "torch": "2.13.0", ...}
    settings JSON,                  -- options of `accelprof run`
    quality JSON                    -- {"profiler_cpu_s":, "profiler_rss_bytes":, ...}
);
CREATE TABLE IF NOT EXISTS device (
    device INTEGER, uuid VARCHAR, name VARCHAR, kind VARCHAR, catalogue VARCHAR,
    memory_bytes BIGINT, details JSON
);
CREATE TABLE IF NOT EXISTS process (
    process VARCHAR,                -- PID-HEX, as in the spool
    pid INTEGER, ppid INTEGER,
    role VARCHAR,                   -- main | rank | worker | launcher | other
    rank INTEGER, worker INTEGER, started_ns BIGINT, ended_ns BIGINT,
    command VARCHAR, hooks VARCHAR, -- 'loaded', else the reason
    spans BIGINT, spans_lost BIGINT,
    facts JSON                      -- list of the facts that the hooks told
);
CREATE TABLE IF NOT EXISTS device_sample (
    t_ns BIGINT, device INTEGER,
    busy_share DOUBLE, memory_busy_share DOUBLE, sm_share DOUBLE, tensor_share DOUBLE,
    dram_share DOUBLE, occupancy_share DOUBLE,
    memory_used_bytes BIGINT, memory_total_bytes BIGINT,
    sm_clock_hz BIGINT, memory_clock_hz BIGINT, power_w DOUBLE, power_limit_w DOUBLE,
    energy_j DOUBLE, temperature_c DOUBLE, throttle_bits BIGINT,
    pcie_tx_bytes_per_s DOUBLE, pcie_rx_bytes_per_s DOUBLE,
    pcie_generation INTEGER, pcie_width INTEGER
);
CREATE TABLE IF NOT EXISTS host_sample (
    t_ns BIGINT,
    cpu_share DOUBLE,               -- of all usable cores, 0..1
    cpu_core_share DOUBLE[],        -- per core, 0..1
    iowait_share DOUBLE, load_1m DOUBLE,
    psi_cpu_share DOUBLE, psi_io_share DOUBLE, psi_memory_share DOUBLE,
    memory_used_bytes BIGINT, memory_total_bytes BIGINT,
    shm_used_bytes BIGINT, shm_total_bytes BIGINT,
    disk_read_bytes_per_s DOUBLE, disk_write_bytes_per_s DOUBLE,
    net_rx_bytes_per_s DOUBLE, net_tx_bytes_per_s DOUBLE,
    cgroup_memory_bytes BIGINT, cgroup_memory_limit_bytes BIGINT,
    cgroup_cpu_quota_cores DOUBLE, cgroup_throttled_share DOUBLE,
    cgroup_read_bytes_per_s DOUBLE, cgroup_write_bytes_per_s DOUBLE, -- from and to disks
    cpu_power_w DOUBLE              -- of all packages (RAPL)
);
CREATE TABLE IF NOT EXISTS process_sample (
    t_ns BIGINT, pid INTEGER, cpu_cores DOUBLE, rss_bytes BIGINT, pss_bytes BIGINT,
    threads INTEGER, read_bytes_per_s DOUBLE, rchar_bytes_per_s DOUBLE,
    write_bytes_per_s DOUBLE, state VARCHAR
);
-- One row a step and rank. Phase columns are exclusive host times (they never overlap);
-- NULL: not observed in this process so far, 0: observed and none in this step.
CREATE TABLE IF NOT EXISTS step (
    pid INTEGER, rank INTEGER, step BIGINT,
    t_ns BIGINT,                    -- start, UTC
    duration_ns BIGINT,
    kind VARCHAR,                   -- train | inference | loading | marked
    data_wait_ns BIGINT,            -- steady waits in next()
    iterator_ns BIGINT,             -- iterator start, first batch of an epoch, StopIteration
    h2d_ns BIGINT, forward_ns BIGINT, backward_ns BIGINT, optimizer_ns BIGINT,
    checkpoint_ns BIGINT, logging_ns BIGINT, evaluation_ns BIGINT, collective_ns BIGINT,
    gc_ns BIGINT,                   -- inside the other phases, not exclusive
    pre_forward_ns BIGINT,          -- no span, between the step's start and its first forward
    gap_ns BIGINT,                  -- no span, anywhere else in the step
    data_wait_cpu_ns BIGINT,        -- CPU time of the training thread within data_wait_ns
    samples BIGINT, micro_batches INTEGER,
    first_of_epoch BOOLEAN, captured BOOLEAN,
    -- Device time between the borders of these spans, by events; NULL: not timed in this step.
    -- In a wait (iterator included) the device had nothing queued: its idle time.
    data_wait_device_ns BIGINT, h2d_device_ns BIGINT, forward_device_ns BIGINT,
    backward_device_ns BIGINT, optimizer_device_ns BIGINT
);
CREATE TABLE IF NOT EXISTS worker_batch (
    t_ns BIGINT, pid INTEGER, worker INTEGER, -- worker -1: in the training process
    fetch_ns BIGINT, collate_ns BIGINT, cpu_ns BIGINT
);
-- One row an operator and shape of a captured window.
CREATE TABLE IF NOT EXISTS op (
    capture INTEGER, pid INTEGER, t_ns BIGINT, steps INTEGER, window_ns BIGINT,
    name VARCHAR, phase VARCHAR, shapes VARCHAR, dtype VARCHAR,
    calls BIGINT, flops DOUBLE, bytes DOUBLE, -- flops, bytes: NULL when not covered
    time_ns BIGINT,                 -- self time on the device (CPU device: of the host thread)
    host_ns BIGINT
);
CREATE TABLE IF NOT EXISTS stack (
    t_ns BIGINT, pid INTEGER, thread VARCHAR,
    frames VARCHAR,                 -- outermost first, "function (file:line)" joined by ';'
    samples INTEGER
);
CREATE TABLE IF NOT EXISTS "window" (
    from_ns BIGINT, to_ns BIGINT, bottleneck VARCHAR, confidence VARCHAR, shares JSON
);
CREATE TABLE IF NOT EXISTS finding (id VARCHAR, severity VARCHAR, title VARCHAR, body JSON);
CREATE TABLE IF NOT EXISTS event (t_ns BIGINT, kind VARCHAR, pid INTEGER, rank INTEGER, data JSON);
CREATE TABLE IF NOT EXISTS gap (t_ns BIGINT, source VARCHAR, metric VARCHAR, device INTEGER, reason VARCHAR);

CREATE OR REPLACE VIEW steps AS
    SELECT rank, step, make_timestamp_ns(t_ns) AS at, duration_ns / 1e6 AS ms, kind,
           coalesce(data_wait_ns, 0) / 1e6 + coalesce(iterator_ns, 0) / 1e6 AS input_ms,
           forward_ns / 1e6 AS forward_ms, backward_ns / 1e6 AS backward_ms,
           optimizer_ns / 1e6 AS optimizer_ms, checkpoint_ns / 1e6 AS checkpoint_ms,
           logging_ns / 1e6 AS logging_ms, evaluation_ns / 1e6 AS evaluation_ms, samples, captured
    FROM step ORDER BY t_ns;
CREATE OR REPLACE VIEW timeline AS
    SELECT make_timestamp_ns(t_ns) AS at, 'step' AS what, step::VARCHAR AS detail FROM step
    UNION ALL SELECT make_timestamp_ns(t_ns), kind, data::VARCHAR FROM event ORDER BY 1;
