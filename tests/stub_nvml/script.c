/* Reads the script, keeps the clock, applies the rules. */
#define _GNU_SOURCE
#include "stub.h"
#include <fcntl.h>
#include <fnmatch.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x6e766d6c73747562ULL

script stub;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int initialized;
static char clock_path[256], log_path[256];
static struct timespec stamp, began;
static off_t stamp_size;
static ino_t stamp_inode;

static void die(const char *line, const char *why) {
    fprintf(stderr, "stub nvml: %s: %s\n", why, line);
    abort();
}

double script_time(void) {
    if (!clock_path[0]) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)(now.tv_sec - began.tv_sec) + (double)(now.tv_nsec - began.tv_nsec) / 1e9;
    }
    char text[64];
    int fd = open(clock_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return strtod(text, NULL);
}

static number parse_number(const char *text) {
    number n;
    n.real = strtod(text, NULL);
    n.whole = strpbrk(text, ".eEn-") ? (uint64_t)(int64_t)n.real : strtoull(text, NULL, 0);
    return n;
}

static void parse_series(card *d, char *rest) {
    char *word = strtok(rest, " \t");
    if (!word || d->value_count == MAX_VALUES) die("set", "no key, or too many values");
    series *s = &d->values[d->value_count++];
    s->points = calloc(MAX_POINTS, sizeof(point));
    s->ramp = s->count = 0;
    snprintf(s->key, sizeof s->key, "%s", word);
    while ((word = strtok(NULL, " \t"))) {
        if (!strcmp(word, "ramp")) { s->ramp = 1; continue; }
        if (s->count == MAX_POINTS) die(s->key, "too many points");
        char *equals = strchr(word, '=');
        s->points[s->count].at = equals ? strtod(word, NULL) : -INFINITY;
        s->points[s->count++].value = parse_number(equals ? equals + 1 : word);
    }
}

static void parse_rule(card *d, char kind, char *rest) {
    rule *list = d ? d->rules : stub.rules;
    int *count = d ? &d->rule_count : &stub.rule_count;
    if (*count == MAX_RULES) die(rest, "too many rules");
    rule *r = &list[(*count)++];
    long seen = r->seen; /* call counts live on over a change of the script */
    char old[64];
    memcpy(old, r->pattern, sizeof old);
    memset(r, 0, sizeof *r);
    r->kind = kind;
    r->times = -1;
    r->at = -INFINITY;
    r->until = INFINITY;
    char *pattern = strtok(rest, " \t"), *argument = strtok(NULL, " \t"), *word;
    if (!pattern || !argument) die("fail/hang/slow", "needs a pattern and an argument");
    snprintf(r->pattern, sizeof r->pattern, "%s", pattern);
    if (!strcmp(old, r->pattern)) r->seen = seen;
    if (kind == 'h') snprintf(r->path, sizeof r->path, "%s", argument);
    else r->code = (unsigned)strtoul(argument, NULL, 0);
    while ((word = strtok(NULL, " \t"))) {
        char *value = strtok(NULL, " \t");
        if (!value) die(word, "needs a number");
        if (!strcmp(word, "after")) r->after = atol(value);
        else if (!strcmp(word, "times")) r->times = atol(value);
        else if (!strcmp(word, "at")) r->at = strtod(value, NULL);
        else if (!strcmp(word, "until")) r->until = strtod(value, NULL);
        else die(word, "unknown word");
    }
}

static card *begin_card(card *parent) {
    if (stub.card_count == MAX_CARDS) die("device", "too many cards");
    card *d = &stub.cards[stub.card_count++];
    for (int i = 0; i < d->value_count; i++) free(d->values[i].points);
    d->value_count = d->rule_count = d->process_count = d->xid_count = 0;
    d->name[0] = d->uuid[0] = d->pci[0] = d->serial[0] = 0;
    d->magic = MAGIC;
    d->in_use = 1;
    d->parent = parent;
    d->index = parent ? -1 : stub.gpu_count++;
    return d;
}

static void parse_text(card *d, const char *rest) {
    char key[16] = "";
    int used = 0;
    sscanf(rest, "%15s %n", key, &used);
    const char *value = rest + used;
    if (!strcmp(key, "name")) snprintf(d->name, sizeof d->name, "%s", value);
    else if (!strcmp(key, "uuid")) snprintf(d->uuid, sizeof d->uuid, "%s", value);
    else if (!strcmp(key, "pci")) snprintf(d->pci, sizeof d->pci, "%s", value);
    else if (!strcmp(key, "serial")) snprintf(d->serial, sizeof d->serial, "%s", value);
    else die(rest, "unknown text");
}

static void parse_device_line(card *d, const char *verb, char *rest) {
    if (!strcmp(verb, "text")) parse_text(d, rest);
    else if (!strcmp(verb, "set")) parse_series(d, rest);
    else if (!strcmp(verb, "process")) {
        process *p = &d->processes[d->process_count++];
        p->from = -INFINITY;
        p->to = INFINITY;
        char bytes[32] = "";
        sscanf(rest, "%u %31s %lf %lf", &p->pid, bytes, &p->from, &p->to);
        p->bytes = strtoull(bytes, NULL, 0);
    } else if (!strcmp(verb, "xid")) {
        xid *x = &d->xids[d->xid_count++];
        sscanf(rest, "%lf %lu", &x->at, &x->code);
    } else die(verb, "unknown line");
}

static card *parse_line(char *line, card *d, card **gpu) {
    char verb[16] = "";
    int used = 0;
    if (sscanf(line, "%15s %n", verb, &used) < 1 || verb[0] == '#') return d;
    char *rest = line + used;
    if (!strcmp(verb, "clock")) sscanf(rest, "file %255s", clock_path);
    else if (!strcmp(verb, "log")) sscanf(rest, "%255s", log_path);
    else if (!strcmp(verb, "init")) stub.init_code = (unsigned)atoi(rest);
    else if (!strcmp(verb, "system")) {
        if (!strncmp(rest, "driver ", 7)) snprintf(stub.driver, sizeof stub.driver, "%s", rest + 7);
        else if (!strncmp(rest, "nvml ", 5)) snprintf(stub.nvml, sizeof stub.nvml, "%s", rest + 5);
        else if (!strncmp(rest, "cuda ", 5)) stub.cuda = (unsigned)atoi(rest + 5);
    }
    else if (!strcmp(verb, "fail") || !strcmp(verb, "hang") || !strcmp(verb, "slow"))
        parse_rule(d, verb[0], rest);
    else if (!strcmp(verb, "device")) d = *gpu = begin_card(NULL);
    else if (!strcmp(verb, "mig")) d = begin_card(*gpu);
    else if (d) parse_device_line(d, verb, rest);
    else die(line, "belongs below a device");
    return d;
}

static void refresh(void) {
    const char *path = getenv("STUB_NVML_SCRIPT");
    struct stat now;
    if (!path || stat(path, &now)) die(path ? path : "(unset)", "no file at STUB_NVML_SCRIPT");
    if (now.st_mtim.tv_sec == stamp.tv_sec && now.st_mtim.tv_nsec == stamp.tv_nsec &&
        now.st_size == stamp_size && now.st_ino == stamp_inode) return;
    stamp = now.st_mtim;
    stamp_size = now.st_size;
    stamp_inode = now.st_ino;
    FILE *file = fopen(path, "re");
    if (!file) die(path, "cannot read");
    stub.card_count = stub.gpu_count = stub.rule_count = 0;
    stub.init_code = 0;
    stub.cuda = 12080;
    strcpy(stub.driver, "570.86.15");
    strcpy(stub.nvml, "12.570.86.15");
    clock_path[0] = log_path[0] = 0;
    static char line[8192];
    card *d = NULL, *gpu = NULL;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        d = parse_line(line, d, &gpu);
    }
    fclose(file);
    for (int i = stub.card_count; i < MAX_CARDS; i++) stub.cards[i].in_use = 0;
}

static void record(const char *function, card *d) {
    if (!log_path[0]) return;
    char text[128];
    int n = snprintf(text, sizeof text, "%s %d\n", function, d ? (int)(d - stub.cards) : -1);
    int fd = open(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    if (write(fd, text, (size_t)n) < 0) perror("stub nvml: log");
    close(fd);
}

/* What the rules of one list demand for this call; fills hang and delay for use outside the lock. */
static ret_t apply(rule *list, int count, const char *what, char *hang, unsigned *delay) {
    ret_t result = OK;
    for (int i = 0; i < count; i++) {
        rule *r = &list[i];
        if (fnmatch(r->pattern, what, 0)) continue;
        long seen = r->seen++;
        if (seen < r->after || (r->times >= 0 && seen >= r->after + r->times)) continue;
        if (r->at > -INFINITY && script_time() < r->at) continue;
        if (r->until < INFINITY && script_time() >= r->until) continue;
        if (r->kind == 's') *delay = r->code;
        else if (r->kind == 'h') memcpy(hang, r->path, sizeof r->path);
        else if (!result) result = r->code;
    }
    return result;
}

static ret_t judge(const char *what, card *d, int system_rules) {
    char hang[256] = "";
    unsigned delay = 0;
    ret_t result = system_rules ? apply(stub.rules, stub.rule_count, what, hang, &delay) : OK;
    ret_t own = d ? apply(d->rules, d->rule_count, what, hang, &delay) : OK;
    pthread_mutex_unlock(&lock);
    if (delay) usleep(delay * 1000);
    while (hang[0] && access(hang, F_OK)) usleep(2000);
    return result ? result : own;
}

ret_t enter(const char *function, card *d) {
    pthread_mutex_lock(&lock);
    refresh();
    record(function, d);
    int bad = d && (d < stub.cards || d >= stub.cards + MAX_CARDS || d->magic != MAGIC || !d->in_use);
    int starting = !strncmp(function, "nvmlInit", 8);
    if ((!initialized && !starting) || bad) {
        pthread_mutex_unlock(&lock);
        return bad ? INVALID_ARGUMENT : UNINITIALIZED;
    }
    return judge(function, d, 1);
}

ret_t inside(card *d, const char *what) {
    pthread_mutex_lock(&lock);
    return judge(what, d, 1);
}

ret_t start(void) {
    if (stub.init_code) return stub.init_code;
    if (!initialized++) clock_gettime(CLOCK_MONOTONIC, &began);
    return OK;
}

ret_t stop(void) {
    initialized -= initialized > 0;
    return OK;
}

static number between(const series *s, double now) {
    int i = 0;
    while (i + 1 < s->count && s->points[i + 1].at <= now) i++;
    number value = s->points[i].value;
    if (s->ramp && i + 1 < s->count && now > s->points[i].at) {
        const point *a = &s->points[i], *b = &s->points[i + 1];
        value.real = a->value.real + (b->value.real - a->value.real) * (now - a->at) / (b->at - a->at);
        value.whole = (uint64_t)value.real;
    }
    return value;
}

ret_t lookup(card *d, const char *key, number *out) {
    ret_t result = NOT_SUPPORTED;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < d->value_count; i++) {
        const series *s = &d->values[i];
        if (strcmp(s->key, key) || !s->count) continue;
        *out = s->count == 1 ? s->points[0].value : between(s, script_time());
        result = OK;
        break;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

ret_t read_u32(card *d, const char *key, unsigned *out) {
    number n;
    if (!out) return INVALID_ARGUMENT;
    ret_t r = lookup(d, key, &n);
    if (!r) *out = (unsigned)n.whole;
    return r;
}

ret_t read_u64(card *d, const char *key, uint64_t *out) {
    number n;
    if (!out) return INVALID_ARGUMENT;
    ret_t r = lookup(d, key, &n);
    if (!r) *out = n.whole;
    return r;
}

ret_t put_text(const char *text, char *out, unsigned length) {
    if (!out) return INVALID_ARGUMENT;
    if (!text[0]) return NOT_SUPPORTED;
    if (strlen(text) + 1 > length) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return OK;
}

card *gpu_at(unsigned index) {
    for (int i = 0; i < stub.card_count; i++)
        if (!stub.cards[i].parent && stub.cards[i].index == (int)index) return &stub.cards[i];
    return NULL;
}
