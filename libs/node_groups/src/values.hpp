#pragma once
// Values of flags and tags.
#include "qm/base/parse.hpp"
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/model/resources.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace qm::node_groups {

/// "true", "false", "1", "0", "t" and "f" as Go's strconv.ParseBool; nullopt for others.
[[nodiscard]] std::optional<bool> bool_of(std::string_view text);
/// The thousandths of "0.5"; nullopt unless it is a decimal number of 0 to 1.
[[nodiscard]] std::optional<std::int64_t> share_of(std::string_view text);
/// "key=value:Effect", or "key:Effect"; nullopt without a valid effect. The effects of gcloud (NO_SCHEDULE) are read too.
[[nodiscard]] std::optional<Taint> taint_of(std::string_view text);
/// "a=b,c=d"; kInvalid for an item without "=".
[[nodiscard]] Result<Labels> labels_of(std::string_view text);
/// "a=b:NoSchedule,c:NoExecute"; kInvalid has the item.
[[nodiscard]] Result<std::vector<Taint>> taints_of(std::string_view text);

}  // namespace qm::node_groups
