#pragma once
namespace qm {

/// Ends waits on descriptors early. descriptor() is readable from a call of notify() on, until take().
///
/// Threads  any; one waits.
class Wake {
 public:
  Wake();
  ~Wake();
  Wake(const Wake&) = delete;
  Wake& operator=(const Wake&) = delete;

  void notify() const;
  /// Whether notify() was called since the last take().
  bool take() const;
  [[nodiscard]] int descriptor() const { return fd_; }

 private:
  int fd_;
};

}  // namespace qm
