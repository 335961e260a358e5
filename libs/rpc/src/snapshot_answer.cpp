#include "qm/rpc/server.hpp"
#include "qm/service/history.hpp"
#include "qm/wire/parse.hpp"

#include <fmt/format.h>

#include <memory>

namespace qm::rpc {

qm::Status check_read(const google::protobuf::Message& request) {
  const std::unique_ptr<google::protobuf::Message> copy(request.New());
  copy->CopyFrom(request);
  return wire::clean(*copy);
}

Result<std::size_t> page_size(std::int32_t asked, std::int32_t fallback, std::int32_t largest) {
  if (asked < 0 || asked > largest) {
    return fail(Error{Code::kInvalid, fmt::format("page_size {} is out of range", asked), "page_size",
                      fmt::format("use 1 to {}, or 0 for {}", largest, fallback)});
  }
  return static_cast<std::size_t>(asked == 0 ? fallback : asked);
}

qm::Status fill_snapshot(service::Host& host, const quartermaster::v1::SnapshotRequest& request,
                         quartermaster::v1::SnapshotResponse& response) {
  QM_ASSIGN(const auto size, page_size(request.page_size(), 500, 5000));
  service::put_history(host.history(), response);
  QM_ASSIGN(const auto rows,
            host.snapshot(request.topic(), request.page_token(), size, request.key(), request.ended()));
  std::size_t bytes = 0;
  for (const auto& row : rows) {
    bytes += row.value.size();
    if (!response.add_entries()->ParseFromString(row.value)) {
      return fail(Code::kInternal, "the stored envelope of {} {} cannot be read", row.topic, row.key);
    }
  }
  if (request.key().empty() && (rows.size() == size || bytes >= store::kReadBytes))
    response.set_next_page_token(rows.back().key);
  return {};
}

}  // namespace qm::rpc
