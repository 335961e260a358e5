#pragma once
#include "options.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace qm::cli {

/// The options of `recommend`. verb() reports wrong ones as the other options are: with CLI::ValidationError.
class RecommendFlags {
 public:
  void add_to(CLI::App& app);
  [[nodiscard]] Verb verb() const;

 private:
  [[nodiscard]] Verb sharing() const;
  [[nodiscard]] Verb schedule() const;
  std::string action_, model_, table_, usd_, timezone_ = "UTC";
  std::int64_t tenants_ = 1;
  std::int32_t least_ = 1;
  std::vector<std::int32_t> sizes_;
  std::vector<std::string> files_;
  bool production_ = false;
};

}  // namespace qm::cli
