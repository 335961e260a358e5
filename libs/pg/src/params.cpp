// PostgreSQL's binary wire format of the few types in use: big-endian numbers, arrays with a header of
// (dimensions, has-null flag, element type, length, lower bound) and then (length, bytes) per element.
#include "qm/base/assert.hpp"
#include "qm/pg/connection.hpp"

#include <limits>

namespace qm::pg {
namespace {

constexpr std::uint32_t kBool = 16;
constexpr std::uint32_t kBytea = 17;
constexpr std::uint32_t kInt8 = 20;
constexpr std::uint32_t kText = 25;

template <class T>
void put(std::string& out, T value) {
  for (int shift = static_cast<int>(sizeof(T)) * 8 - 8; shift >= 0; shift -= 8)
    out.push_back(static_cast<char>((static_cast<std::uint64_t>(value) >> shift) & 0xff));
}

void put_element(std::string& out, std::string_view value) {
  QM_ASSERT(value.size() < std::numeric_limits<std::int32_t>::max(), "a value of {} bytes", value.size());
  put(out, static_cast<std::uint32_t>(value.size()));
  out.append(value);
}

std::string array_header(std::uint32_t type, std::size_t size, bool has_null) {
  std::string out;
  put(out, std::uint32_t{size == 0 ? 0U : 1U});
  put(out, std::uint32_t{has_null ? 1U : 0U});
  put(out, type);
  if (size == 0) return out;
  put(out, static_cast<std::uint32_t>(size));
  put(out, std::uint32_t{1});
  return out;
}

}  // namespace

Params& Params::text(std::string_view value) {
  values_.emplace_back(value);
  return *this;
}

Params& Params::int8(std::int64_t value) {
  std::string out;
  put(out, value);
  values_.push_back(std::move(out));
  return *this;
}

Params& Params::texts(std::span<const std::string_view> values) {
  auto out = array_header(kText, values.size(), false);
  for (const auto value : values) put_element(out, value);
  values_.push_back(std::move(out));
  return *this;
}

Params& Params::bytes(std::span<const std::optional<std::string_view>> values) {
  bool has_null = false;
  for (const auto& value : values) has_null = has_null || !value;
  auto out = array_header(kBytea, values.size(), has_null);
  for (const auto& value : values) {
    if (value) {
      put_element(out, *value);
    } else {
      put(out, std::uint32_t{0xffffffff});
    }
  }
  values_.push_back(std::move(out));
  return *this;
}

Params& Params::int8s(std::span<const std::int64_t> values) {
  auto out = array_header(kInt8, values.size(), false);
  for (const auto value : values) {
    put(out, std::uint32_t{8});
    put(out, value);
  }
  values_.push_back(std::move(out));
  return *this;
}

Params& Params::bools(const std::vector<bool>& values) {
  auto out = array_header(kBool, values.size(), false);
  for (const bool value : values) {
    put(out, std::uint32_t{1});
    out.push_back(value ? '\1' : '\0');
  }
  values_.push_back(std::move(out));
  return *this;
}

}  // namespace qm::pg
