// Preloaded into a process: calls to the file system fail on command, below one folder.
// The command is a file of 32-bit numbers, mapped by this library and written by the test:
//   0 calls counted so far   1 the first call that fails (0: none)   2 how many fail (-1: all that follow)
//   3 the error number; -1: half of what a write asks for is written, and the call says so   4 calls that failed
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS_MAX 65536
static unsigned char tracked[FDS_MAX];
static volatile int *command;
static const char *root;
static size_t root_length;

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("RKAT_FAULT_COMMAND");
  root = getenv("RKAT_FAULT_ROOT");
  if (!path || !root) return;
  root_length = strlen(root);
  int fd = REAL(open)(path, O_RDWR);
  if (fd < 0) return;
  void *at = REAL(mmap)(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  REAL(close)(fd);
  if (at != MAP_FAILED) command = at;
}

static int is_inside(const char *path) {
  return command && path && strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || !path[root_length]);
}
static int is_tracked(int fd) { return command && fd >= 0 && fd < FDS_MAX && tracked[fd]; }
static int is_inside_at(int dir, const char *path) { return is_inside(path) || (path && path[0] != '/' && is_tracked(dir)); }
static int track(int fd, int inside) {
  if (fd >= 0 && fd < FDS_MAX) tracked[fd] = inside;
  return fd;
}

// Counts a call; what it is to fail with, -1 for a short write, 0 for nothing.
static int fault(void) {
  int number = __sync_add_and_fetch(&command[0], 1);
  int first = command[1], many = command[2];
  if (first == 0 || number < first || (many >= 0 && number >= first + many)) return 0;
  __sync_add_and_fetch(&command[4], 1);
  return command[3];
}
// A call that writes nothing cannot be cut short.
#define FAIL_IF(inside, answer) \
  if (inside) { int why = fault(); if (why > 0) { errno = why; return answer; } }

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
    int inside = is_inside(path); FAIL_IF(inside, -1) \
    return track(REAL(name)(path, flags, mode), inside); }
OPEN(open) OPEN(open64)
#define OPENAT(name) \
  int name(int dir, const char *path, int flags, ...) { \
    va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
    int inside = is_inside_at(dir, path); FAIL_IF(inside, -1) \
    return track(REAL(name)(dir, path, flags, mode), inside); }
OPENAT(openat) OPENAT(openat64)
int creat(const char *path, mode_t mode) {
  int inside = is_inside(path); FAIL_IF(inside, -1)
  return track(REAL(creat)(path, mode), inside);
}
int close(int fd) {
  if (command && fd >= 0 && fd < FDS_MAX) tracked[fd] = 0;
  return REAL(close)(fd);
}

static size_t cut(int fd, size_t bytes, int *why) {
  *why = is_tracked(fd) ? fault() : 0;
  return *why < 0 && bytes > 1 ? bytes / 2 : bytes;
}
#define WRITE(name, params, ...) \
  ssize_t name params { int why; size_t less = cut(fd, bytes, &why); \
    if (why > 0) { errno = why; return -1; } \
    return REAL(name)(__VA_ARGS__); }
WRITE(write, (int fd, const void *from, size_t bytes), fd, from, less)
WRITE(pwrite, (int fd, const void *from, size_t bytes, off_t at), fd, from, less, at)
WRITE(pwrite64, (int fd, const void *from, size_t bytes, off64_t at), fd, from, less, at)
// Of several buffers, only the first is written, by half.
#define WRITEV(name, params, whole, half) \
  ssize_t name params { \
    int why = is_tracked(fd) ? fault() : 0; \
    if (why > 0) { errno = why; return -1; } \
    if (why == 0 || count < 1) return REAL(name) whole; \
    struct iovec less = from[0]; if (less.iov_len > 1) less.iov_len /= 2; \
    return REAL(name) half; }
WRITEV(writev, (int fd, const struct iovec *from, int count), (fd, from, count), (fd, &less, 1))
WRITEV(pwritev, (int fd, const struct iovec *from, int count, off_t at), (fd, from, count, at), (fd, &less, 1, at))
WRITEV(pwritev64, (int fd, const struct iovec *from, int count, off64_t at), (fd, from, count, at), (fd, &less, 1, at))

#define ON_FD(name, params, ...) \
  int name params { FAIL_IF(is_tracked(fd), -1) return REAL(name)(__VA_ARGS__); }
ON_FD(fsync, (int fd), fd)
ON_FD(fdatasync, (int fd), fd)
ON_FD(ftruncate, (int fd, off_t bytes), fd, bytes)
ON_FD(ftruncate64, (int fd, off64_t bytes), fd, bytes)
ON_FD(fallocate, (int fd, int mode, off_t at, off_t bytes), fd, mode, at, bytes)
ON_FD(fallocate64, (int fd, int mode, off64_t at, off64_t bytes), fd, mode, at, bytes)
ON_FD(fchmod, (int fd, mode_t mode), fd, mode)
// These tell their error by their answer.
int posix_fallocate(int fd, off_t at, off_t bytes) {
  if (is_tracked(fd)) { int why = fault(); if (why > 0) return why; }
  return REAL(posix_fallocate)(fd, at, bytes);
}
int posix_fallocate64(int fd, off64_t at, off64_t bytes) {
  if (is_tracked(fd)) { int why = fault(); if (why > 0) return why; }
  return REAL(posix_fallocate64)(fd, at, bytes);
}

#define ON_PATH(name, params, ...) \
  int name params { FAIL_IF(is_inside(path), -1) return REAL(name)(__VA_ARGS__); }
ON_PATH(mkdir, (const char *path, mode_t mode), path, mode)
ON_PATH(unlink, (const char *path), path)
ON_PATH(rmdir, (const char *path), path)
ON_PATH(chmod, (const char *path, mode_t mode), path, mode)
ON_PATH(truncate, (const char *path, off_t bytes), path, bytes)
ON_PATH(truncate64, (const char *path, off64_t bytes), path, bytes)
ON_PATH(rename, (const char *path, const char *to), path, to)
ON_PATH(link, (const char *path, const char *to), path, to)
#define ON_PATH_AT(name, params, ...) \
  int name params { FAIL_IF(is_inside_at(dir, path), -1) return REAL(name)(__VA_ARGS__); }
ON_PATH_AT(mkdirat, (int dir, const char *path, mode_t mode), dir, path, mode)
ON_PATH_AT(unlinkat, (int dir, const char *path, int flags), dir, path, flags)
ON_PATH_AT(renameat, (int dir, const char *path, int to_dir, const char *to), dir, path, to_dir, to)
ON_PATH_AT(renameat2, (int dir, const char *path, int to_dir, const char *to, unsigned flags), dir, path, to_dir, to, flags)

void *mmap(void *near, size_t bytes, int protect, int flags, int fd, off_t at) {
  FAIL_IF(is_tracked(fd), MAP_FAILED)
  return REAL(mmap)(near, bytes, protect, flags, fd, at);
}
void *mmap64(void *near, size_t bytes, int protect, int flags, int fd, off64_t at) {
  FAIL_IF(is_tracked(fd), MAP_FAILED)
  return REAL(mmap64)(near, bytes, protect, flags, fd, at);
}
int msync(void *from, size_t bytes, int flags) { return REAL(msync)(from, bytes, flags); }
