#pragma once
#include "qm/base/digest.hpp"
#include "qm/base/table.hpp"
#include "qm/rpc/server.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace qm::rpc {

namespace v1 = quartermaster::v1;

/// A shell that counts cancellations per workload: enough to send a mutation and a read through a host.
class CountingShell final : public service::Shell {
 public:
  Status load(std::span<const store::StateRow> rows) override {
    counts_.clear();
    for (const auto& row : rows) counts_.restore(row.key, std::stoll(*row.value));
    return {};
  }
  void step(std::span<const service::Input> batch, Instant, service::Effects& out,
            std::vector<std::pair<std::size_t, Error>>&) override {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (batch[i].source != service::Source::kRequest) continue;
      v1::CancelRequest request;
      request.ParseFromString(batch[i].bytes);
      if (request.uid().empty()) {
        out.answers.push_back({i, fail(Error{Code::kInvalid, "a uid is missing", "uid", "name the workload"})});
        continue;
      }
      ++counts_.edit(request.uid());
      out.events.push_back({"qm.workload", request.uid(), std::to_string(*counts_.find(request.uid())), false});
      v1::CancelResponse response;
      response.set_phase(v1::CANCELLED);
      out.answers.push_back({i, response.SerializeAsString()});
    }
    counts_.changed([&](const std::string& key, const std::int64_t* count) {
      out.state.push_back({"count", key, std::to_string(*count)});
    });
  }
  void undo() override { counts_.rollback(); }
  void commit() override { counts_.commit(); }
  [[nodiscard]] std::uint64_t digest() const override {
    Digest digest;
    for (const auto& [key, count] : counts_) digest.add(key).add(count);
    return digest.value();
  }
  void debug_state(service::StateDump& out) const override {
    out.map("counts", counts_.rows(), [](const auto& key, const auto& count) { return std::pair(key, Json(count)); });
  }
  [[nodiscard]] std::int64_t count(const std::string& uid) const {
    const auto* row = counts_.find(uid);
    return row == nullptr ? 0 : *row;
  }

 private:
  Table<std::string, std::int64_t> counts_;
};

/// Each call tests one aspect of the server: Submit fails, Cancel mutates, Get reads, List hangs until it is
/// cancelled, Explain until it is released, Snapshot pages.
class TinyService final : public v1::Admission::CallbackService {
 public:
  explicit TinyService(service::Host* host = nullptr) : host_(host) {}

  Error error{Code::kExhausted, "the queue is full", "spec.queue", "wait, or use another queue"};
  std::atomic<int> hanging = 0, cancelled = 0;
  std::atomic<int> pages = 0;
  std::atomic<bool> stuck = false;  ///< Snapshot returns the same page repeatedly
  std::string seen_trace;

  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context, const v1::SubmitRequest*,
                                   v1::SubmitResponse*) override {
    seen_trace = trace_parent(*context);
    auto* reactor = context->DefaultReactor();
    reactor->Finish(to_grpc(error));
    return reactor;
  }
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context, const v1::CancelRequest* request,
                                   v1::CancelResponse* response) override {
    return mutate(*host_, context, "Cancel", *request, request->request_id(), response);
  }
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context, const v1::GetWorkloadRequest* request,
                                v1::Workload* response) override {
    return answer(*host_, context, *request, [request, response](const service::Shell& shell) -> qm::Status {
      const auto count = dynamic_cast<const CountingShell&>(shell).count(request->uid());
      if (count == 0) return fail(Code::kNotFound, "workload {} is not known", request->uid());
      response->set_version(static_cast<std::uint64_t>(count));
      return {};
    });
  }
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext*, const v1::ListWorkloadsRequest*,
                                 v1::ListWorkloadsResponse*) override {
    ++hanging;
    return new UntilCancelled(*this);
  }
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context, const v1::ExplainRequest*,
                                    v1::Explanation*) override {
    auto* reactor = context->DefaultReactor();
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(reactor);
    return reactor;
  }
  /// Three pages of one key each, the key from the page's token, and one more if ended keys are requested too.
  grpc::ServerUnaryReactor* Snapshot(grpc::CallbackServerContext* context, const v1::SnapshotRequest* request,
                                     v1::SnapshotResponse* response) override {
    ++pages;
    auto* reactor = context->DefaultReactor();
    auto* entry = response->add_entries();
    entry->set_topic(request->topic());
    const int page = request->page_token().empty() ? 0 : std::stoi(request->page_token());
    entry->set_key(page == 3 ? "ended" : fmt::format("k{}", request->page_token()));
    if (stuck) {
      response->set_next_page_token("1");
    } else if (page < (request->ended() ? 3 : 2)) {
      response->set_next_page_token(std::to_string(page + 1));
    }
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  [[nodiscard]] std::size_t waiting() {
    const std::scoped_lock lock(mutex_);
    return waiting_.size();
  }
  void let_go() {
    const std::scoped_lock lock(mutex_);
    for (auto* reactor : waiting_) reactor->Finish(grpc::Status::OK);
    waiting_.clear();
  }

 private:
  class UntilCancelled final : public grpc::ServerUnaryReactor {
   public:
    explicit UntilCancelled(TinyService& owner) : owner_(owner) {}
    void OnCancel() override {
      ++owner_.cancelled;
      Finish(grpc::Status::CANCELLED);
    }
    void OnDone() override { delete this; }

   private:
    TinyService& owner_;
  };

  service::Host* host_;
  std::mutex mutex_;
  std::vector<grpc::ServerUnaryReactor*> waiting_;
};

inline std::unique_ptr<v1::Admission::Stub> stub_of(int port) {
  return v1::Admission::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
}

}  // namespace qm::rpc
