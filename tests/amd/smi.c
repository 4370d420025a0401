// Two GPUs behind libamd_smi.so's ABI (amdsmi 7): the functions that accelprof asks for.
// The second has no power, no activity and no energy counter, as sentinels and as errors.
// The other functions of the library come from a generated file; each answers NOT_SUPPORTED.
#include <stdint.h>
#include <string.h>

enum { OK = 0, INVAL = 1, NOT_SUPPORTED = 2 };
typedef void *handle;
#define SECOND(h) ((uintptr_t)(h) == 2)

int amdsmi_init(uint64_t flags) { return flags == 2 ? OK : INVAL; }
int amdsmi_shut_down(void) { return OK; }

int amdsmi_get_socket_handles(uint32_t *count, handle *out) {
    if (out) out[0] = (handle)1;
    *count = 1;
    return OK;
}
int amdsmi_get_processor_handles(handle socket, uint32_t *count, handle *out) {
    for (uintptr_t i = 0; out && i < 2; i++) out[i] = (handle)(2 - i);
    *count = 2;
    return socket == (handle)1 ? OK : INVAL;
}
int amdsmi_get_gpu_device_bdf(handle h, uint64_t *bdf) {
    *bdf = (uint64_t)(SECOND(h) ? 0x2c : 0x0c) << 8;
    return OK;
}
int amdsmi_get_gpu_device_uuid(handle h, uint32_t *size, char *out) {
    strncpy(out, SECOND(h) ? "uuid-two" : "uuid-one", *size);
    return OK;
}

struct asic {
    char market[256]; uint32_t vendor; char vendor_name[256]; uint32_t subvendor; uint64_t device;
    uint32_t revision; char serial[256]; uint32_t oam, units; uint64_t graphics; uint32_t rest[22];
};
int amdsmi_get_gpu_asic_info(handle h, struct asic *out) {
    (void)h;
    memset(out, 0, sizeof *out);
    strcpy(out->market, "AMD Instinct MI300X");
    strcpy(out->serial, "0A1B");
    out->graphics = 0x942;
    return OK;
}

struct activity { uint32_t gfx, umc, mm, rest[13]; };
int amdsmi_get_gpu_activity(handle h, struct activity *out) {
    *out = (struct activity){SECOND(h) ? 0xFFFF : 98, SECOND(h) ? 0xFFFF : 37, 0xFFFF, {0}};
    return OK;
}
int amdsmi_get_gpu_vram_usage(handle h, uint32_t out[4]) {
    (void)h;
    out[0] = 196592, out[1] = 122880;
    return OK;
}

struct power { uint64_t socket; uint32_t now, average; uint64_t volts[3]; uint32_t limit; };
int amdsmi_get_power_info(handle h, struct power *out) {
    uint32_t none = 0xFFFF;
    *out = (struct power){SECOND(h) ? none : 612, SECOND(h) ? none : 612, none, {0}, 750};
    return OK;
}
int amdsmi_get_power_cap_info(handle h, uint32_t sensor, uint64_t out[8]) {
    (void)h, (void)sensor;
    out[0] = 750000000;
    return OK;
}
int amdsmi_get_energy_count(handle h, uint64_t *counter, float *resolution, uint64_t *time) {
    if (SECOND(h)) return NOT_SUPPORTED;
    *counter = 10000000000, *resolution = 15.3f, *time = 1;
    return OK;
}

int amdsmi_get_temp_metric(handle h, int sensor, int metric, int64_t *out) {
    (void)metric;
    if (SECOND(h) && sensor == 1) return NOT_SUPPORTED;
    *out = sensor == 1 ? 71 : sensor == 0 ? 48 : 0;
    return OK;
}

struct clock { uint32_t now, low, high; uint8_t locked, sleep; };
int amdsmi_get_clock_info(handle h, int kind, struct clock *out) {
    (void)h;
    *out = (struct clock){kind == 0 ? 2100 : 1300, 132, 2100, 0, 0};
    return OK;
}

struct link {
    uint16_t width_max; uint32_t speed_max, version, slot, version_max; uint64_t rest[9];
    uint16_t width; uint32_t speed, bandwidth; uint64_t counters[5]; uint32_t recovery;
};
int amdsmi_get_pcie_info(handle h, struct link *out) {
    (void)h;
    memset(out, 0, sizeof *out);
    out->width_max = out->width = 16;
    out->speed_max = out->speed = 32000;
    return OK;
}
