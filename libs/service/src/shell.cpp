#include "qm/service/shell.hpp"

#include "qm/base/text.hpp"

namespace qm::service {

std::optional<Input> without_nul(const Input& input) {
  // No protobuf message of the suite begins with these bytes: they would be groups of field 15 or 11.
  if (!input.bytes.starts_with('{') && !input.bytes.starts_with('[')) return std::nullopt;
  auto bytes = qm::without_nul(input.bytes);
  if (!bytes) return std::nullopt;
  Input out = input;
  out.bytes = *std::move(bytes);
  return out;
}

}  // namespace qm::service
