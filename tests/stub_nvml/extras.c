/* Field values, processes, MIG, GPM and events. */
#include "stub.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef union { double d; int i; unsigned u; uint64_t ull; int64_t sll; } value;
typedef struct {
    unsigned id, scope;
    int64_t timestamp_us, latency_us;
    unsigned type, result; /* type: 0 double, 1 u32, 3 u64 */
    value value;
} field;

ret_t nvmlDeviceGetFieldValues(card *d, int count, field *fields) {
    ENTER(d);
    for (int i = 0; i < count; i++) {
        char key[24];
        number n;
        snprintf(key, sizeof key, "field.%u", fields[i].id);
        fields[i].result = inside(d, key);
        if (!fields[i].result) fields[i].result = lookup(d, key, &n);
        if (fields[i].result) continue;
        fields[i].timestamp_us = (int64_t)(script_time() * 1e6);
        fields[i].type = 3;
        fields[i].value.ull = n.whole;
    }
    return OK;
}

/* Processes: v1 rows have 16 bytes, v2 and v3 rows 24. */
typedef struct { unsigned pid, pad; uint64_t bytes; } process_v1;
typedef struct { unsigned pid, pad; uint64_t bytes; unsigned gpu_instance, compute_instance; } process_v2;

static ret_t list_processes(card *d, unsigned *count, void *out, size_t row) {
    double now = script_time();
    unsigned found = 0;
    for (int i = 0; i < d->process_count; i++)
        found += d->processes[i].from <= now && now < d->processes[i].to;
    unsigned room = *count;
    *count = found;
    if (!found) return OK;
    if (!out || room < found) return INSUFFICIENT_SIZE;
    char *at = out;
    for (int i = 0; i < d->process_count; i++) {
        const process *p = &d->processes[i];
        if (p->from > now || now >= p->to) continue;
        process_v2 full = {p->pid, 0, p->bytes, ~0u, ~0u};
        memcpy(at, &full, row);
        at += row;
    }
    return OK;
}

#define PROCESSES(function, row) \
    ret_t function(card *d, unsigned *n, void *out) { ENTER(d); return list_processes(d, n, out, row); }
PROCESSES(nvmlDeviceGetComputeRunningProcesses, sizeof(process_v1))
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, sizeof(process_v2))
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, sizeof(process_v2))
#define NO_PROCESSES(function) \
    ret_t function(card *d, unsigned *n, void *out) { (void)out; ENTER(d); *n = 0; return OK; }
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)

ret_t nvmlDeviceGetMigMode(card *d, unsigned *now, unsigned *pending) {
    ENTER(d);
    ret_t r = read_u32(d, "mig_mode", now);
    *pending = *now;
    return r;
}

ret_t nvmlDeviceIsMigDeviceHandle(card *d, unsigned *out) { ENTER(d); *out = d->parent != NULL; return OK; }

ret_t nvmlDeviceGetMaxMigDeviceCount(card *d, unsigned *out) {
    ENTER(d);
    unsigned on = 0;
    read_u32(d, "mig_mode", &on);
    *out = on ? 7 : 0;
    return OK;
}

ret_t nvmlDeviceGetMigDeviceHandleByIndex(card *d, unsigned index, card **out) {
    ENTER(d);
    for (int i = 0; i < stub.card_count; i++)
        if (stub.cards[i].parent == d && !index--) { *out = &stub.cards[i]; return OK; }
    return NOT_FOUND;
}

ret_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(card *d, card **out) {
    ENTER(d);
    if (!d->parent) return INVALID_ARGUMENT;
    *out = d->parent;
    return OK;
}

ret_t nvmlDeviceGetGpuInstanceId(card *d, unsigned *out) {
    ENTER(d);
    return d->parent ? read_u32(d, "gpu_instance", out) : INVALID_ARGUMENT;
}

ret_t nvmlDeviceGetComputeInstanceId(card *d, unsigned *out) {
    ENTER(d);
    return d->parent ? read_u32(d, "compute_instance", out) : INVALID_ARGUMENT;
}

/* GPM. The struct ends in an array whose length differs between headers: only the entries that
   numMetrics counts may be touched. Plain version 1, unlike every other NVML struct. */
typedef struct { unsigned version, supported; } gpm_support;
typedef struct { card *device; double at; } gpm_sample;
typedef struct { unsigned id, result; double value; const char *names[3]; } gpm_metric;
typedef struct { unsigned version, count; gpm_sample *first, *second; gpm_metric metrics[]; } gpm_request;

ret_t nvmlGpmQueryDeviceSupport(card *d, gpm_support *out) {
    ENTER(d);
    if (out->version != 1) return VERSION_MISMATCH;
    out->supported = 0;
    read_u32(d, "gpm_supported", &out->supported);
    return OK;
}

ret_t nvmlGpmSampleAlloc(gpm_sample **out) { ENTER(NULL); *out = calloc(1, sizeof **out); return OK; }
ret_t nvmlGpmSampleFree(gpm_sample *sample) { ENTER(NULL); free(sample); return OK; }

static ret_t take(card *d, gpm_sample *sample) {
    unsigned supported = 0;
    read_u32(d, "gpm_supported", &supported);
    if (!supported) return NOT_SUPPORTED;
    sample->device = d;
    sample->at = script_time();
    return OK;
}

ret_t nvmlGpmSampleGet(card *d, gpm_sample *sample) { ENTER(d); return take(d, sample); }

ret_t nvmlGpmMigSampleGet(card *d, unsigned instance, gpm_sample *sample) {
    ENTER(d);
    for (int i = 0; i < stub.card_count; i++) {
        unsigned id;
        card *mig = &stub.cards[i];
        if (mig->parent == d && !read_u32(mig, "gpu_instance", &id) && id == instance)
            return take(mig, sample);
    }
    return INVALID_ARGUMENT;
}

ret_t nvmlGpmMetricsGet(gpm_request *request) {
    if (request->version != 1) return VERSION_MISMATCH;
    card *d = request->first ? request->first->device : NULL;
    ENTER(d);
    if (!d || !request->second || request->second->device != d) return INVALID_ARGUMENT;
    if (request->second->at <= request->first->at) return 27; /* no time between the samples */
    for (unsigned i = 0; i < request->count; i++) {
        gpm_metric *m = &request->metrics[i];
        char key[24];
        number n;
        snprintf(key, sizeof key, "gpm.%u", m->id);
        m->result = inside(d, key);
        if (!m->result) m->result = lookup(d, key, &n);
        m->value = m->result ? 0.0 : n.real;
    }
    return OK;
}

/* Events: a set remembers per card how many of its Xids it has told. */
typedef struct { int registered[MAX_CARDS], told[MAX_CARDS]; } event_set;
typedef struct { card *device; uint64_t type, data; unsigned gpu_instance, compute_instance; } event;
#define XID_EVENT 8ULL

ret_t nvmlEventSetCreate(event_set **out) { ENTER(NULL); *out = calloc(1, sizeof **out); return OK; }
ret_t nvmlEventSetFree(event_set *set) { ENTER(NULL); free(set); return OK; }
ret_t nvmlDeviceGetSupportedEventTypes(card *d, uint64_t *out) { ENTER(d); *out = XID_EVENT; return OK; }

ret_t nvmlDeviceRegisterEvents(card *d, uint64_t types, event_set *set) {
    ENTER(d);
    if (types & XID_EVENT) set->registered[d - stub.cards] = 1;
    return OK;
}

ret_t nvmlEventSetWait_v2(event_set *set, event *out, unsigned timeout_ms) {
    (void)timeout_ms; /* never waits: time is the script's */
    ENTER(NULL);
    double now = script_time();
    for (int i = 0; i < stub.card_count; i++) {
        card *d = &stub.cards[i];
        if (!set->registered[i] || set->told[i] >= d->xid_count) continue;
        if (d->xids[set->told[i]].at > now) continue;
        event told = {d, XID_EVENT, d->xids[set->told[i]++].code, ~0u, ~0u};
        *out = told;
        return OK;
    }
    return TIMEOUT;
}
