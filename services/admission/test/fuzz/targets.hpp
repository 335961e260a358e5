#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission::fuzz {

/// A decoder of external input. For any bytes feed() returns, with an answer or an error, and the laws of the code
/// behind it hold; otherwise it ends the process. Returns whether the bytes were accepted and had an effect.
struct Target {
  std::string_view name;
  bool (*feed)(std::string_view bytes);
  std::vector<std::string> (*seeds)();  ///< valid inputs to start from: all are accepted
};

/// manifest: files that users apply. review: requests of the API server to the webhooks. input: events of the bus,
/// watched objects and requests, each decoded and decided; the first byte selects one of these.
[[nodiscard]] std::span<const Target> targets();

}  // namespace qm::admission::fuzz
