#pragma once
// Values of flags and tags.
#include "qm/base/parse.hpp"
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/model/resources.hpp"
#include "qm/node_groups/flags.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace qm::node_groups {

/// "true", "false", "1", "0", "t" and "f" as Go's strconv.ParseBool; nullopt for others.
[[nodiscard]] std::optional<bool> bool_of(std::string_view text);
/// "key=value:Effect", or "key:Effect"; nullopt without a valid effect. The effects of gcloud (NO_SCHEDULE) are read too.
[[nodiscard]] std::optional<Taint> taint_of(std::string_view text);
/// "a=b,c=d"; kInvalid for an item without "=".
[[nodiscard]] Result<Labels> labels_of(std::string_view text);
/// "a=b:NoSchedule,c:NoExecute"; kInvalid has the item.
[[nodiscard]] Result<std::vector<Taint>> taints_of(std::string_view text);

}  // namespace qm::node_groups
