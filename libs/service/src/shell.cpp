#include "qm/service/shell.hpp"

#include "qm/base/text.hpp"

namespace qm::service {

Status check_text(const Input& input) {
  // No message of protobuf begins so: these would be groups, of field 15 or 11.
  const bool json = input.bytes.starts_with('{') || input.bytes.starts_with('[');
  if (!json || !json_has_nul(input.bytes)) return {};
  return fail(Error{Code::kInvalid,
                    fmt::format("{} {} has the character U+0000 in a string", input.name, input.key),
                    {},
                    "remove it"});
}

}  // namespace qm::service
