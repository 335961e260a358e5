#pragma once
#include "facts.hpp"
#include "sources.hpp"

#include <string>

namespace qm::agent {

/// Watches one instance for its spot interruption notice.
///
/// The life cycle is requested until it is known; an on-demand instance is not queried again. A notice is one fact
/// for each action and time in it; a failed read is retried.
/// Threads  one at a time.
class NoticeWatch {
 public:
  NoticeWatch(std::string node, MetadataSource& metadata, Facts& facts)
      : node_(std::move(node)), metadata_(metadata), facts_(facts) {}

  enum class Look { kNothing, kNotice, kError, kNeverAgain };
  Look look(Instant now);

 private:
  /// Reads a path whose value does not change into `known`, once.
  Status learn(const std::string& path, std::string& known);
  Result<Look> try_look(Instant now);

  std::string node_;
  MetadataSource& metadata_;
  Facts& facts_;
  std::string life_cycle_, instance_, reported_;
};

}  // namespace qm::agent
