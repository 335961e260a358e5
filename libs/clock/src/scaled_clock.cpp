// The file of a scaled clock.
//
// One page-aligned block of 64-bit words, host byte order (it is used on one host only):
//   magic and version | sequence | count | ring of segments {steady start ns, domain start us, factor in millionths}
//
// A seqlock guards it. The writer makes the sequence odd *before* it reads steady time for the new segment, and a
// reader reads steady time between two reads of the sequence. A reading from the old segment is therefore before the
// start of the new one, and domain time is continuous for every process. Ordering relies on acquire and release of
// the words themselves; fences would be equivalent but are invisible to the thread sanitizer.
#include "longest_wait.hpp"
#include "qm/base/assert.hpp"
#include "qm/clock/clock.hpp"

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace qm {
namespace {

__extension__ typedef __int128 Wide;
using Word = std::atomic<std::int64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

constexpr std::int64_t kMagic = 0x716d636c6f636b31;  // "qmclock1"
constexpr std::int64_t kSegments = 1024;
constexpr double kMaxFactor = 1e6;

struct Segment {
  std::int64_t steady_ns = 0;
  std::int64_t domain_us = 0;
  std::int64_t factor_ppm = 0;

  /// Rounds down, so that the result does not depend on the number of calls.
  [[nodiscard]] std::int64_t domain_at(std::int64_t steady) const {
    return domain_us + static_cast<std::int64_t>(Wide(steady - steady_ns) * factor_ppm / 1'000'000'000);
  }
};

struct ClockFile {
  Word magic;
  Word sequence;
  Word count;
  struct {
    Word steady_ns, domain_us, factor_ppm;
  } segments[kSegments];
};

std::int64_t steady_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

struct Reading {
  Segment segment;
  std::int64_t steady_ns = 0;
  [[nodiscard]] std::int64_t domain_us() const { return segment.domain_at(steady_ns); }
};

Reading read(const ClockFile& file) {
  for (;;) {
    const std::int64_t before = file.sequence.load(std::memory_order_acquire);
    if ((before & 1) != 0) continue;
    const std::int64_t count = file.count.load(std::memory_order_acquire);
    const auto& newest = file.segments[(count - 1) & (kSegments - 1)];
    Reading reading;
    reading.segment.steady_ns = newest.steady_ns.load(std::memory_order_acquire);
    reading.segment.domain_us = newest.domain_us.load(std::memory_order_acquire);
    reading.segment.factor_ppm = newest.factor_ppm.load(std::memory_order_acquire);
    reading.steady_ns = steady_ns();
    if (file.sequence.load(std::memory_order_acquire) == before) return reading;
  }
}

void append(ClockFile& file, const Segment& segment) {
  const std::int64_t count = file.count.load(std::memory_order_relaxed);
  auto& slot = file.segments[count & (kSegments - 1)];
  slot.steady_ns.store(segment.steady_ns, std::memory_order_release);
  slot.domain_us.store(segment.domain_us, std::memory_order_release);
  slot.factor_ppm.store(segment.factor_ppm, std::memory_order_release);
  file.count.store(count + 1, std::memory_order_release);
}

std::int64_t to_ppm(double factor) {
  QM_ASSERT(std::isfinite(factor) && factor >= 0 && factor <= kMaxFactor, "clock factor {}", factor);
  return std::llround(factor * 1e6);
}

ClockFile* map(int fd, bool writable) {
  void* at = ::mmap(nullptr, sizeof(ClockFile), writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : static_cast<ClockFile*>(at);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

Error file_error(Code code, const std::string& path, std::string_view what) {
  return Error{code, fmt::format("clock file {}: {}", path, what), "clock",
               "start the fleet first, and give the clock file that it writes"};
}

}  // namespace

struct ScaledClock::Mapping {
  ClockFile* file = nullptr;
  std::atomic<std::int64_t> newest{INT64_MIN};
  ~Mapping() {
    if (file != nullptr) ::munmap(file, sizeof(ClockFile));
  }
};

ScaledClock::ScaledClock(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}
ScaledClock::~ScaledClock() = default;

Result<std::unique_ptr<ScaledClock>> ScaledClock::open(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) {
    return fail(file_error(errno == ENOENT ? Code::kNotFound : Code::kUnavailable, path, std::strerror(errno)));
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size != sizeof(ClockFile)) {
    return fail(file_error(Code::kInvalid, path, "not a clock file (wrong size)"));
  }
  auto mapping = std::make_unique<Mapping>();
  mapping->file = map(fd.get(), false);
  if (mapping->file == nullptr) return fail(file_error(Code::kUnavailable, path, std::strerror(errno)));
  if (mapping->file->magic.load(std::memory_order_acquire) != kMagic ||
      mapping->file->count.load(std::memory_order_acquire) < 1) {
    return fail(file_error(Code::kInvalid, path, "not a clock file (wrong first bytes)"));
  }
  return std::unique_ptr<ScaledClock>(new ScaledClock(std::move(mapping)));
}

Instant ScaledClock::now() const {
  const std::int64_t us = read(*mapping_->file).domain_us();
  // The segments alone prevent time from going back; this also prevents it if a writer is restarted on the same
  // file.
  std::int64_t seen = mapping_->newest.load(std::memory_order_relaxed);
  while (seen < us && !mapping_->newest.compare_exchange_weak(seen, us, std::memory_order_relaxed)) {
  }
  return from_micros(seen < us ? us : seen);
}

SteadyDuration ScaledClock::until(Instant t) const {
  const Reading reading = read(*mapping_->file);
  const std::int64_t remaining = micros(t) - reading.domain_us();
  if (remaining <= 0) return SteadyDuration::zero();
  if (reading.segment.factor_ppm == 0) return kLongestWait;
  const Wide ns = (Wide(remaining) * 1'000'000'000 + reading.segment.factor_ppm - 1) / reading.segment.factor_ppm;
  const auto longest = std::chrono::nanoseconds(kLongestWait).count();
  return std::chrono::nanoseconds(ns > longest ? longest : static_cast<std::int64_t>(ns));
}

double ScaledClock::factor() const { return static_cast<double>(read(*mapping_->file).segment.factor_ppm) / 1e6; }

struct ScaledClockWriter::Mapping {
  ClockFile* file = nullptr;
  std::mutex mutex;
  ~Mapping() {
    if (file != nullptr) ::munmap(file, sizeof(ClockFile));
  }
};

ScaledClockWriter::ScaledClockWriter(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}
ScaledClockWriter::~ScaledClockWriter() = default;

Result<std::unique_ptr<ScaledClockWriter>> ScaledClockWriter::create(const std::string& path, Instant start,
                                                                     double factor) {
  // Written to a draft file and renamed, so that no reader maps a partial file and an older mapping remains valid.
  const std::string draft = path + ".new";
  const Descriptor fd(::open(draft.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (fd.get() < 0 || ::ftruncate(fd.get(), sizeof(ClockFile)) != 0) {
    return fail(Code::kUnavailable, "clock file {}: {}", draft, std::strerror(errno));
  }
  auto mapping = std::make_unique<Mapping>();
  mapping->file = map(fd.get(), true);
  if (mapping->file == nullptr) return fail(Code::kUnavailable, "clock file {}: {}", draft, std::strerror(errno));
  append(*mapping->file, Segment{steady_ns(), micros(start), to_ppm(factor)});
  mapping->file->magic.store(kMagic, std::memory_order_release);
  if (::rename(draft.c_str(), path.c_str()) != 0) {
    return fail(Code::kUnavailable, "clock file {}: {}", path, std::strerror(errno));
  }
  return std::unique_ptr<ScaledClockWriter>(new ScaledClockWriter(std::move(mapping)));
}

Instant ScaledClockWriter::now() const { return from_micros(read(*mapping_->file).domain_us()); }

double ScaledClockWriter::factor() const { return static_cast<double>(read(*mapping_->file).segment.factor_ppm) / 1e6; }

void ScaledClockWriter::set_factor(double factor) {
  const std::int64_t ppm = to_ppm(factor);
  const std::lock_guard lock(mapping_->mutex);
  ClockFile& file = *mapping_->file;
  const Segment old = read(file).segment;
  const std::int64_t sequence = file.sequence.load(std::memory_order_relaxed);
  file.sequence.exchange(sequence + 1, std::memory_order_acq_rel);
  const std::int64_t start = steady_ns();
  append(file, Segment{start, old.domain_at(start), ppm});
  file.sequence.store(sequence + 2, std::memory_order_release);
}

}  // namespace qm
