#include "qm/base/unpacked.hpp"
#include "vectors.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::admission::vectors {
namespace {

Error in_file(const std::string& path, std::size_t line, Error error) {
  error.message = fmt::format("{}:{}: {}", path, line, error.message);
  return error;
}

}  // namespace

Result<Json> read_json(const std::string& path) {
  const auto text = read_unpacked(path, "name a file of recorded cases");
  if (!text) return fail(text.error());
  auto out = Json::parse(*text);
  if (!out) return fail(in_file(path, 1, out.error()));
  return out;
}

Result<std::vector<Json>> read_records(const std::string& path) {
  const auto read = read_unpacked(path, "name a file of recorded cases");
  if (!read) return fail(read.error());
  const std::string_view text = *read;
  std::vector<Json> out;
  if (text.starts_with('[')) {
    auto all = Json::parse(text);
    if (!all) return fail(in_file(path, 1, all.error()));
    return std::move(all->items_mut());
  }
  const Error no_list{Code::kInvalid, path + " holds no list of cases", path, "a list is a JSON array, or JSON lines"};
  std::size_t line = 1;
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const auto end = std::min(text.find('\n', begin), text.size());
    auto record = Json::parse(text.substr(begin, end - begin));
    if (!record && line == 1) return fail(no_list);
    if (!record) return fail(in_file(path, line, record.error()));
    out.push_back(std::move(*record));
    begin = end + 1;
  }
  if (out.size() == 1 && !out.front().contains("suite") && !out.front().contains("trace")) return fail(no_list);
  return out;
}

}  // namespace qm::admission::vectors
