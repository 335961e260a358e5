#pragma once
#include "facts.hpp"
#include "notice_sources.hpp"

#include <memory>
#include <set>
#include <string>

namespace qm::agent {

/// Watches one instance for notices of its cloud: each is one fact, for its kind, action and time.
///
/// Errors   a failed read is retried after one second, then two, up to 30; the notices known before stay reported.
/// Threads  one at a time.
class NoticeWatch {
 public:
  NoticeWatch(std::string node, std::unique_ptr<NoticeSource> source, Facts& facts)
      : node_(std::move(node)), source_(std::move(source)), facts_(facts) {}

  enum class Look { kNothing, kNotice, kError, kBackOff };
  Look look(Instant now);

 private:
  Result<Look> try_look(Instant now);
  Status report(const SeenNotice& notice, Instant now);

  std::string node_;
  std::unique_ptr<NoticeSource> source_;
  Facts& facts_;
  std::set<SeenNotice> reported_;
  int errors_ = 0;
  Instant not_before_{};
};

}  // namespace qm::agent
