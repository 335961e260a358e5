#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace qm::autoscaler::replicas {

/// The first fault of a manifest.
using Fault = std::optional<Error>;

/// Reads the fields of one object of a manifest. Each read field is known; end() reports the others. After a fault the
/// values are defaults.
class Fields {
 public:
  Fields(const Json& of, std::string path, Fault& fault);

  [[nodiscard]] bool has(std::string_view name) const { return !of_[name].is_null(); }
  [[nodiscard]] std::string path_of(std::string_view name) const;
  [[nodiscard]] Fault& fault() { return fault_; }
  /// The field as it is; null if it is absent.
  const Json& any(std::string_view name);
  Fields object(std::string_view name);
  /// Calls `read` with each element of a list of objects.
  template <class Read>
  void each(std::string_view name, Read read) {
    const auto& list = any(name);
    if (!list.is_null() && !list.is_array()) wrong(name, "must be a list");
    for (std::size_t i = 0; i < list.size(); ++i) {
      Fields one(list.at(i), path_of(name) + "[" + std::to_string(i) + "]", fault_);
      read(one);
      one.end();
    }
  }

  std::optional<std::int32_t> integer(std::string_view name, std::int32_t least, std::int32_t most);
  std::string text(std::string_view name, bool required);
  /// The position of the text in the words.
  std::optional<std::size_t> word(std::string_view name, std::initializer_list<std::string_view> words);
  std::optional<std::int64_t> quantity_milli(std::string_view name);  ///< above 0

  // ---- fields whose values are texts: the metadata of triggers ----
  std::int64_t whole_text(std::string_view name, std::int64_t fallback, std::int64_t least);
  std::optional<double> number_text(std::string_view name);
  bool boolean_text(std::string_view name, bool fallback);

  void known(std::initializer_list<std::string_view> names);
  void wrong(std::string_view name, std::string_view what, std::string remedy = {});
  /// Reports a field that was not read.
  void end();

 private:
  const Json& of_;
  std::string path_;
  Fault& fault_;
  std::set<std::string, std::less<>> known_;
};

/// A boolean as Go's strconv.ParseBool reads it.
[[nodiscard]] std::optional<bool> boolean_of(std::string_view text);
/// A double; also "1e3", "Inf" and "NaN".
[[nodiscard]] std::optional<double> double_of(std::string_view text);

}  // namespace qm::autoscaler::replicas
