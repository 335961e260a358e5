#include "snapshot_reader.hpp"

#include "qm/admission/codec.hpp"

namespace qm::admission {

namespace pb = quartermaster::v1;

namespace {
constexpr std::size_t kMostWaiting = 256;
}

SnapshotReader::SnapshotReader(service::Host& host)
    : host_(host), thread_([this](const std::stop_token& stop) {
        for (;;) {
          std::function<void()> next;
          {
            std::unique_lock lock(mutex_);
            if (!changed_.wait(lock, stop, [&] { return !todo_.empty(); })) return;
            next = std::move(todo_.front());
            todo_.pop_front();
          }
          next();
        }
      }) {}

SnapshotReader::~SnapshotReader() {
  thread_.request_stop();
  thread_.join();
}

Status SnapshotReader::read(const pb::SnapshotRequest& request, pb::SnapshotResponse& response) {
  if (request.topic() != kTopic) {
    return fail({Code::kInvalid, fmt::format("topic {} is not admission's", request.topic()),
                 "topic", fmt::format("ask for {}", kTopic)});
  }
  const std::size_t size = request.page_size() <= 0 ? 200 : std::min(request.page_size(), 1000);
  QM_ASSIGN(const auto rows,
            host_.snapshot(request.topic(), request.page_token(), size, request.key()));
  for (const auto& row : rows) {
    if (!response.add_entries()->ParseFromString(row.value)) {
      return fail(Code::kInternal, "the envelope of {} cannot be read", row.key);
    }
  }
  if (rows.size() == size && request.key().empty()) response.set_next_page_token(rows.back().key);
  return {};
}

grpc::ServerUnaryReactor* SnapshotReader::answer(grpc::CallbackServerContext* context,
                                                 const pb::SnapshotRequest& request,
                                                 pb::SnapshotResponse* response) {
  auto* reactor = context->DefaultReactor();
  {
    const std::lock_guard lock(mutex_);
    if (todo_.size() < kMostWaiting) {
      todo_.emplace_back([this, reactor, request, response] {
        const auto status = read(request, *response);
        reactor->Finish(status ? grpc::Status::OK : rpc::to_grpc(status.error()));
      });
      changed_.notify_one();
      return reactor;
    }
  }
  reactor->Finish(rpc::to_grpc(
      {Code::kExhausted, "too many snapshots are being read", {}, "try again in a second"}));
  return reactor;
}

}  // namespace qm::admission
