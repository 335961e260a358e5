#pragma once
#include "aws_wire.hpp"
#include "text.hpp"

#include <map>
#include <string>

namespace qm::fleet {

/// The client tokens of one action: a repeated call gets the outcome of the first one for a day of domain time. An
/// empty token is none.
///
/// Threads  under the world's lock.
template <class Outcome>
class ClientTokens {
 public:
  static constexpr Duration kLife = std::chrono::hours(24);
  static constexpr std::size_t kMaxLength = 64;

  /// The outcome of the first call with this token; null if the call is the first. Refuses a token that is too long,
  /// and one that was used with other parameters.
  [[nodiscard]] Answered<const Outcome*> known(const AwsCall& call, Instant now) {
    const auto& token = call.param("ClientToken");
    if (token.size() > kMaxLength) return invalid_value("Client token is longer than 64 characters");
    std::erase_if(kept_, [&](const auto& entry) { return entry.second.at + kLife <= now; });
    const auto* entry = find_in(kept_, token);
    if (entry == nullptr) return nullptr;
    if (entry->parameters == without_token(call)) return &entry->outcome;
    return refuse(400, "IdempotentParameterMismatch",
                  "The client token you have provided is associated with a resource that has different parameters");
  }
  void keep(const AwsCall& call, Outcome outcome, Instant now) {
    const auto& token = call.param("ClientToken");
    if (!token.empty()) kept_.insert_or_assign(token, Entry{without_token(call), std::move(outcome), now});
  }

 private:
  struct Entry {
    std::map<std::string, std::string> parameters;
    Outcome outcome;
    Instant at{};
  };
  static std::map<std::string, std::string> without_token(const AwsCall& call) {
    auto out = call.params;
    out.erase("ClientToken");
    return out;
  }
  std::map<std::string, Entry> kept_;
};

}  // namespace qm::fleet
