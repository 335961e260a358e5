#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission::fuzz {

/// A door that bytes come in by from outside. Whatever they are, feed() comes back: with an answer or an error, and with the laws
/// of what is behind the door unbroken. It ends the process where that is not so. Says whether they were taken, and were about anything.
struct Target {
  std::string_view name;
  bool (*feed)(std::string_view bytes);
  std::vector<std::string> (*seeds)();  ///< good inputs, to start from: all are taken
};

/// manifest: files that people apply. review: what the API server asks the webhooks. input: events of the bus, objects that are
/// watched, and requests, each decoded and decided; its first byte says which of these.
[[nodiscard]] std::span<const Target> targets();

}  // namespace qm::admission::fuzz
