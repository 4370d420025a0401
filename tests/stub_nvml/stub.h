/* A libnvidia-ml.so.1 without hardware, told by a script file what to answer.
 *
 * The script is named by STUB_NVML_SCRIPT and read again whenever it changes. Lines ('#' comments):
 *
 *   clock file PATH        seconds of script time stand in PATH (else: seconds since init)
 *   init CODE              nvmlInit returns CODE (9: library without a driver)
 *   log PATH               append "FUNCTION DEVICE" of every call
 *   system KEY TEXT        driver, nvml, cuda (number, 12040)
 *   fail PATTERN CODE [after N] [times M] [at T] [until T]   (N, M count calls)
 *   hang PATTERN PATH ...  before the first `device`: for all of them
 *   slow PATTERN MS ...
 *   device                 begins the next card; the lines below belong to it
 *   mig                    begins a MIG instance of the card above
 *   text KEY TEXT          name, uuid, pci (00000000:1B:00.0), serial
 *   set KEY VALUE          one value, or T=VALUE ... (a step at each script time),
 *                          or ramp T=VALUE ... (straight lines between)
 *   process PID BYTES [FROM TO]
 *   xid T CODE             an Xid event at script time T
 *
 * PATTERN is a glob over function names, and over "field.ID" and "gpm.ID" for single values inside
 * a call. A key that is not set answers NOT_SUPPORTED. `hang` sleeps until the file PATH exists.
 * Lost devices: `fail nvmlDevice* 15 at T`. Absent functions are a matter of linking: see build.py.
 */
#ifndef STUB_NVML_H
#define STUB_NVML_H
#include <stdint.h>

#define MAX_CARDS 64
#define MAX_VALUES 128
#define MAX_POINTS 64
#define MAX_RULES 64
#define MAX_PROCESSES 64
#define MAX_XIDS 16

enum {
    OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, TIMEOUT = 10, VERSION_MISMATCH = 25
};
typedef unsigned ret_t;

typedef struct { uint64_t whole; double real; } number;
typedef struct { double at; number value; } point;
typedef struct { char key[24]; int ramp, count; point *points; } series;
typedef struct {
    char kind; /* f(ail), h(ang), s(low) */
    char pattern[64], path[256];
    unsigned code;
    long after, times, seen;
    double at, until;
} rule;
typedef struct { unsigned pid; uint64_t bytes; double from, to; } process;
typedef struct { double at; uint64_t code; } xid;

typedef struct card {
    uint64_t magic; /* a handle is the address of a card */
    int index, in_use;
    struct card *parent; /* of a MIG instance */
    char name[96], uuid[96], pci[32], serial[32];
    series values[MAX_VALUES];
    rule rules[MAX_RULES];
    process processes[MAX_PROCESSES];
    xid xids[MAX_XIDS];
    int value_count, rule_count, process_count, xid_count;
} card;

typedef struct {
    card cards[MAX_CARDS];
    rule rules[MAX_RULES];
    int card_count, rule_count, gpu_count;
    unsigned init_code, cuda;
    char driver[80], nvml[80];
} script;

extern script stub;

/* The gate of every call: reads the script anew, logs, hangs, fails. d may be NULL (system calls). */
ret_t enter(const char *function, card *d);
/* A rule for one value inside a call ("gpm.10"). */
ret_t inside(card *d, const char *what);
ret_t lookup(card *d, const char *key, number *out);
ret_t read_u32(card *d, const char *key, unsigned *out);
ret_t read_u64(card *d, const char *key, uint64_t *out);
ret_t put_text(const char *text, char *out, unsigned length);
card *gpu_at(unsigned index);
double script_time(void);
ret_t start(void);
ret_t stop(void);

#define ENTER(device) do { ret_t r_ = enter(__func__, device); if (r_) return r_; } while (0)
#endif
