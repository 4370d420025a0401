/* NVML's functions on system and devices. Names and layouts are those of nvml.h. */
#include "stub.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ret_t nvmlInitWithFlags(unsigned flags) { (void)flags; ENTER(NULL); return start(); }
ret_t nvmlInit_v2(void) { ENTER(NULL); return start(); }
ret_t nvmlShutdown(void) { ENTER(NULL); return stop(); }

const char *nvmlErrorString(ret_t code) {
    static const char *const texts[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power",
        "Driver Not Loaded", "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found",
        "Function Not Found", "Corrupted infoROM", "GPU is lost", "GPU requires reset",
        "The operating system has blocked the request", "RM has detected a version mismatch",
        "In Use", "Insufficient Memory", "No data"};
    return code < sizeof texts / sizeof *texts ? texts[code] : "Unknown Error";
}

ret_t nvmlSystemGetDriverVersion(char *out, unsigned n) { ENTER(NULL); return put_text(stub.driver, out, n); }
ret_t nvmlSystemGetNVMLVersion(char *out, unsigned n) { ENTER(NULL); return put_text(stub.nvml, out, n); }
ret_t nvmlSystemGetCudaDriverVersion(int *out) { ENTER(NULL); *out = (int)stub.cuda; return OK; }
ret_t nvmlSystemGetCudaDriverVersion_v2(int *out) { ENTER(NULL); *out = (int)stub.cuda; return OK; }

ret_t nvmlDeviceGetCount_v2(unsigned *out) { ENTER(NULL); *out = (unsigned)stub.gpu_count; return OK; }

ret_t nvmlDeviceGetHandleByIndex_v2(unsigned index, card **out) {
    ENTER(NULL);
    card *d = gpu_at(index);
    if (!d) return INVALID_ARGUMENT;
    ENTER(d);
    *out = d;
    return OK;
}

ret_t nvmlDeviceGetHandleByUUID(const char *uuid, card **out) {
    ENTER(NULL);
    for (int i = 0; i < stub.card_count; i++)
        if (!strcmp(stub.cards[i].uuid, uuid)) { *out = &stub.cards[i]; return OK; }
    return NOT_FOUND;
}

ret_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, card **out) {
    ENTER(NULL);
    for (int i = 0; i < stub.card_count; i++)
        if (!strcmp(stub.cards[i].pci, bus)) { *out = &stub.cards[i]; return OK; }
    return NOT_FOUND;
}

ret_t nvmlDeviceGetName(card *d, char *out, unsigned n) { ENTER(d); return put_text(d->name, out, n); }
ret_t nvmlDeviceGetUUID(card *d, char *out, unsigned n) { ENTER(d); return put_text(d->uuid, out, n); }
ret_t nvmlDeviceGetSerial(card *d, char *out, unsigned n) { ENTER(d); return put_text(d->serial, out, n); }
ret_t nvmlDeviceGetIndex(card *d, unsigned *out) {
    ENTER(d);
    if (d->parent) return NOT_SUPPORTED;
    *out = (unsigned)d->index;
    return OK;
}
ret_t nvmlDeviceGetMinorNumber(card *d, unsigned *out) { ENTER(d); *out = (unsigned)d->index; return OK; }

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
} pci_v3;

ret_t nvmlDeviceGetPciInfo_v3(card *d, pci_v3 *out) {
    ENTER(d);
    unsigned domain, bus, slot;
    if (sscanf(d->pci, "%x:%x:%x", &domain, &bus, &slot) != 3) return NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    out->domain = domain;
    out->bus = bus;
    out->device = slot;
    snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.0", domain & 0xffff, bus & 0xff, slot & 0xff);
    snprintf(out->text, sizeof out->text, "%08X:%02X:%02X.0", domain, bus & 0xff, slot & 0xff);
    return OK;
}

typedef struct { uint64_t total, free, used; } memory_v1;
typedef struct { unsigned version, pad; uint64_t total, reserved, free, used; } memory_v2;

ret_t nvmlDeviceGetMemoryInfo(card *d, memory_v1 *out) {
    ENTER(d);
    uint64_t reserved = 0;
    ret_t r = read_u64(d, "memory_total", &out->total);
    if (!r) r = read_u64(d, "memory_used", &out->used);
    read_u64(d, "memory_reserved", &reserved);
    if (out->used + reserved > out->used) out->used += reserved; /* v1's used includes it */
    out->free = out->total - out->used;
    return r;
}

ret_t nvmlDeviceGetMemoryInfo_v2(card *d, memory_v2 *out) {
    ENTER(d);
    if (out->version != (sizeof *out | 2u << 24)) return VERSION_MISMATCH;
    ret_t r = read_u64(d, "memory_total", &out->total);
    if (!r) r = read_u64(d, "memory_used", &out->used);
    out->reserved = 0;
    read_u64(d, "memory_reserved", &out->reserved);
    out->free = out->total - out->used - out->reserved;
    return r;
}

ret_t nvmlDeviceGetUtilizationRates(card *d, unsigned out[2]) {
    ENTER(d);
    ret_t r = read_u32(d, "gpu_util", &out[0]);
    return r ? r : read_u32(d, "memory_util", &out[1]);
}

#define U32(function, key) \
    ret_t function(card *d, unsigned *out) { ENTER(d); return read_u32(d, key, out); }
#define U64(function, key) \
    ret_t function(card *d, uint64_t *out) { ENTER(d); return read_u64(d, key, out); }

U32(nvmlDeviceGetPowerUsage, "power_mw")
U32(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw")
U32(nvmlDeviceGetPowerManagementLimit, "power_limit_mw")
U32(nvmlDeviceGetPowerManagementDefaultLimit, "power_default_mw")
U64(nvmlDeviceGetTotalEnergyConsumption, "energy_mj")
U64(nvmlDeviceGetCurrentClocksEventReasons, "throttle")
U64(nvmlDeviceGetCurrentClocksThrottleReasons, "throttle")
U32(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation")
U32(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
U32(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_max_generation")
U32(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie_gpu_max_generation")
U32(nvmlDeviceGetMaxPcieLinkWidth, "pcie_max_width")
U32(nvmlDeviceGetPcieReplayCounter, "pcie_replays")
U32(nvmlDeviceGetFanSpeed, "fan")
U32(nvmlDeviceGetPersistenceMode, "persistence")
U32(nvmlDeviceGetComputeMode, "compute_mode")
U32(nvmlDeviceGetPowerState, "pstate")
U32(nvmlDeviceGetArchitecture, "architecture")
U32(nvmlDeviceGetBrand, "brand")
U32(nvmlDeviceGetNumGpuCores, "cores")
U32(nvmlDeviceGetMemoryBusWidth, "bus_width")

ret_t nvmlDeviceGetPowerManagementLimitConstraints(card *d, unsigned *low, unsigned *high) {
    ENTER(d);
    ret_t r = read_u32(d, "power_min_mw", low);
    return r ? r : read_u32(d, "power_max_mw", high);
}

ret_t nvmlDeviceGetTemperature(card *d, unsigned sensor, unsigned *out) {
    ENTER(d);
    return sensor ? INVALID_ARGUMENT : read_u32(d, "temperature", out);
}

typedef struct { unsigned version, sensor; int celsius; } temperature_v1;

ret_t nvmlDeviceGetTemperatureV(card *d, temperature_v1 *out) {
    ENTER(d);
    if (out->version != (sizeof *out | 1u << 24)) return VERSION_MISMATCH;
    return out->sensor ? INVALID_ARGUMENT : read_u32(d, "temperature", (unsigned *)&out->celsius);
}

static ret_t numbered(card *d, const char *kind, unsigned id, unsigned *out) {
    char key[24];
    snprintf(key, sizeof key, "%s.%u", kind, id);
    return read_u32(d, key, out);
}

ret_t nvmlDeviceGetTemperatureThreshold(card *d, unsigned kind, unsigned *out) {
    ENTER(d);
    return numbered(d, "threshold", kind, out);
}

ret_t nvmlDeviceGetClockInfo(card *d, unsigned kind, unsigned *out) {
    ENTER(d);
    return numbered(d, "clock", kind, out);
}

ret_t nvmlDeviceGetMaxClockInfo(card *d, unsigned kind, unsigned *out) {
    ENTER(d);
    return numbered(d, "max_clock", kind, out);
}

ret_t nvmlDeviceGetPcieThroughput(card *d, unsigned direction, unsigned *out) {
    ENTER(d);
    return read_u32(d, direction ? "pcie_rx_kbps" : "pcie_tx_kbps", out);
}

ret_t nvmlDeviceGetCudaComputeCapability(card *d, int *major, int *minor) {
    ENTER(d);
    unsigned value;
    ret_t r = read_u32(d, "compute_capability", &value); /* 90 is 9.0 */
    if (r) return r;
    *major = (int)(value / 10);
    *minor = (int)(value % 10);
    return OK;
}

ret_t nvmlDeviceGetEccMode(card *d, unsigned *now, unsigned *pending) {
    ENTER(d);
    ret_t r = read_u32(d, "ecc", now);
    *pending = *now;
    return r;
}

ret_t nvmlDeviceGetTotalEccErrors(card *d, unsigned kind, unsigned counter, uint64_t *out) {
    ENTER(d);
    (void)counter;
    return read_u64(d, kind ? "ecc_uncorrected" : "ecc_corrected", out);
}

typedef struct { uint64_t reference_us, violation_ns; } violation;

ret_t nvmlDeviceGetViolationStatus(card *d, unsigned policy, violation *out) {
    ENTER(d);
    char key[24];
    snprintf(key, sizeof key, "violation.%u", policy);
    out->reference_us = (uint64_t)(script_time() * 1e6);
    return read_u64(d, key, &out->violation_ns);
}

ret_t nvmlDeviceGetNvLinkState(card *d, unsigned link, unsigned *out) {
    ENTER(d);
    return numbered(d, "nvlink", link, out);
}
