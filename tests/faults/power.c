/* A disk for tests, by LD_PRELOAD: it can end the process at any step, forget what was not synced, and be full.
 *
 * A step is a call that changes something below the folder POWER_ROOT. power_arm(n) kills the process before its n-th
 * step (0 for never); power_steps() is how many there were. What is synced is written to the folder POWER_DISK: the
 * content of a file as file-INODE, the entries of a folder as dir-INODE. With POWER_SPACE, so many bytes can be written
 * below the root; with POWER_NO_EXCHANGE two folders cannot be exchanged; with POWER_NO_SYNC nothing is ever synced.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long armed = -1, steps = 0, written = 0;

#define REAL(type, name, ...)                                 \
  static type (*real)(__VA_ARGS__) = NULL;                    \
  if (real == NULL) *(void **)(&real) = dlsym(RTLD_NEXT, name)

void power_arm(long at) { armed = at, steps = 0, written = 0; }
long power_steps(void) { return steps; }

static int is_below(const char *path) {
  const char *root = getenv("POWER_ROOT");
  char whole[PATH_MAX];
  if (armed < 0 || root == NULL || path == NULL) return 0;
  if (path[0] != '/') {
    if (getcwd(whole, sizeof whole) == NULL) return 0;
    size_t length = strlen(whole);
    snprintf(whole + length, sizeof whole - length, "/%s", path);
    path = whole;
  }
  size_t length = strlen(root);
  return strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int is_open_below(int file) {
  char link[64], path[PATH_MAX];
  if (armed < 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return is_below(path);
}

static void step(int is_one) {
  if (is_one && ++steps == armed) kill(getpid(), SIGKILL);
}

static void record_name(char *name, size_t size, const char *kind, ino_t inode) {
  snprintf(name, size, "%s/%s-%lu", getenv("POWER_DISK"), kind, (unsigned long)inode);
}

static void forget(const char *kind, ino_t inode) {
  char name[PATH_MAX];
  REAL(int, "unlink", const char *);
  record_name(name, sizeof name, kind, inode);
  real(name);
}

/* What has reached the disk of an open file or folder. */
static void record(int file) {
  struct stat status;
  char name[PATH_MAX], place[64];
  if (getenv("POWER_DISK") == NULL || fstat(file, &status) != 0) return;
  snprintf(place, sizeof place, "/proc/self/fd/%d", file);
  record_name(name, sizeof name, S_ISDIR(status.st_mode) ? "dir" : "file", status.st_ino);
  FILE *out = fopen(name, "wb");
  if (out == NULL) return;
  if (S_ISDIR(status.st_mode)) {
    DIR *folder = opendir(place);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
      if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
        fprintf(out, "%s %lu %s\n", entry->d_type == DT_DIR ? "dir" : "file", (unsigned long)entry->d_ino, entry->d_name);
    if (folder != NULL) closedir(folder);
  } else {
    FILE *in = fopen(place, "rb");
    char part[65536];
    for (size_t n; in != NULL && (n = fread(part, 1, sizeof part, in)) > 0;) fwrite(part, 1, n, out);
    if (in != NULL) fclose(in);
  }
  fclose(out);
}

int fsync(int file) {
  REAL(int, "fsync", int);
  int counts = is_open_below(file);
  step(counts);
  int done = real(file);
  if (counts && done == 0 && getenv("POWER_NO_SYNC") == NULL) record(file);
  return done;
}

static ssize_t room(int file, size_t size) {
  const char *space = getenv("POWER_SPACE");
  int counts = is_open_below(file);
  step(counts);
  if (!counts || space == NULL) return (ssize_t)size;
  long left = atol(space) - written;
  if (left <= 0) return errno = ENOSPC, -1;
  size = (long)size < left ? size : (size_t)left;
  written += (long)size;
  return (ssize_t)size;
}

ssize_t write(int file, const void *content, size_t size) {
  REAL(ssize_t, "write", int, const void *, size_t);
  ssize_t n = room(file, size);
  return n < 0 ? -1 : real(file, content, (size_t)n);
}

int rename(const char *from, const char *to) {
  REAL(int, "rename", const char *, const char *);
  step(is_below(to));
  return real(from, to);
}

int renameat2(int one, const char *from, int other, const char *to, unsigned flags) {
  REAL(int, "renameat2", int, const char *, int, const char *, unsigned);
  if (flags != 0 && is_below(to) && getenv("POWER_NO_EXCHANGE") != NULL) return errno = EINVAL, -1;
  step(is_below(to));
  return real(one, from, other, to, flags);
}

int link(const char *from, const char *to) {
  REAL(int, "link", const char *, const char *);
  step(is_below(to));
  return real(from, to);
}

int unlinkat(int folder, const char *path, int flags) {
  REAL(int, "unlinkat", int, const char *, int);
  step(path[0] == '/' ? is_below(path) : is_open_below(folder));
  return real(folder, path, flags);
}

int unlink(const char *path) {
  REAL(int, "unlink", const char *);
  step(is_below(path));
  return real(path);
}

int rmdir(const char *path) {
  REAL(int, "rmdir", const char *);
  step(is_below(path));
  return real(path);
}

int mkdir(const char *path, mode_t mode) {
  REAL(int, "mkdir", const char *, mode_t);
  struct stat status;
  int counts = is_below(path);
  step(counts);
  int done = real(path, mode);
  if (counts && done == 0 && stat(path, &status) == 0) forget("dir", status.st_ino);
  return done;
}

/* A new file may get the number of one that is gone. */
static int opened(int file, int flags, int counts, int is_new) {
  struct stat status;
  if (file >= 0 && counts && (flags & O_CREAT) && is_new && fstat(file, &status) == 0) forget("file", status.st_ino);
  return file;
}

#define OPEN(name)                                                        \
  int name(const char *path, int flags, ...) {                            \
    REAL(int, #name, const char *, int, ...);                             \
    va_list rest;                                                         \
    va_start(rest, flags);                                                \
    mode_t mode = (flags & O_CREAT) ? va_arg(rest, mode_t) : 0;           \
    va_end(rest);                                                         \
    int counts = (flags & O_CREAT) && is_below(path);                     \
    int is_new = counts && access(path, F_OK) != 0;                       \
    step(counts);                                                         \
    return opened(real(path, flags, mode), flags, counts, is_new);        \
  }
#define OPENAT(name)                                                      \
  int name(int folder, const char *path, int flags, ...) {                \
    REAL(int, #name, int, const char *, int, ...);                        \
    va_list rest;                                                         \
    va_start(rest, flags);                                                \
    mode_t mode = (flags & O_CREAT) ? va_arg(rest, mode_t) : 0;           \
    va_end(rest);                                                         \
    int counts = (flags & O_CREAT) && is_below(path);                     \
    int is_new = counts && access(path, F_OK) != 0;                       \
    step(counts);                                                         \
    return opened(real(folder, path, flags, mode), flags, counts, is_new); \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
