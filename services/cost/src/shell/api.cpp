#include "qm/cost/api.hpp"

#include "qm/cost/shell.hpp"
#include "qm/rpc/worker.hpp"
#include "quartermaster/v1/cost_service.grpc.pb.h"

#include <algorithm>

namespace qm::cost {
namespace {

namespace pb = quartermaster::v1;

constexpr int kDefaultPage = 500;
constexpr int kLargestPage = 5000;

Result<Group> parse_group(const std::string& text) {
  if (text.empty() || text == "team") return Group::kTeam;
  if (text == "namespace") return Group::kNamespace;
  if (text == "workload") return Group::kWorkload;
  if (text == "node") return Group::kNode;
  return fail(Error{Code::kInvalid, fmt::format("\"{}\" is not a valid grouping", text), "group_by",
                    "use team, namespace, workload or node"});
}

Result<Instant> until_or_now(std::int64_t us, Instant now, const char* field) {
  if (us == 0) return now;
  if (us < 0 || from_micros(us) > now) {
    return fail(Error{Code::kInvalid, fmt::format("{} lies in the future, or before 1970", field), field,
                      fmt::format("use at most {}, or 0 for now", micros(now))});
  }
  return from_micros(us);
}

/// Whether a line belongs to the caller. A workload is "namespace/name".
bool own(const rpc::Caller& caller, Group group, const std::string& key) {
  if (caller.everything) return true;
  if (group == Group::kTeam) return caller.teams.contains(key);
  return caller.namespaces.contains(key.substr(0, key.find('/')));
}

class Api final : public pb::Cost::CallbackService {
 public:
  Api(service::Host& host, const DomainClock& clock) : host_(host), clock_(clock) {}

  grpc::ServerUnaryReactor* QueryAllocation(grpc::CallbackServerContext* context,
                                            const pb::QueryAllocationRequest* request,
                                            pb::QueryAllocationResponse* response) override {
    return answer(context, *request, response,
                  [this, request, caller = rpc::caller_of(*context)](const Engine& engine) {
                    return query_allocation(engine, *request, now(engine), caller);
                  });
  }
  grpc::ServerUnaryReactor* GetStatement(grpc::CallbackServerContext* context, const pb::GetStatementRequest* request,
                                         pb::Statement* response) override {
    return answer(context, *request, response,
                  [this, request, caller = rpc::caller_of(*context)](const Engine& engine) {
                    return get_statement(engine, *request, now(engine), caller);
                  });
  }
  grpc::ServerUnaryReactor* ListPrices(grpc::CallbackServerContext* context, const pb::ListPricesRequest* request,
                                       pb::ListPricesResponse* response) override {
    return answer(context, *request, response, [this, request](const Engine& engine) {
      return Result<pb::ListPricesResponse>(list_prices(engine, *request, now(engine)));
    });
  }
  grpc::ServerUnaryReactor* Snapshot(grpc::CallbackServerContext* context, const pb::SnapshotRequest* request,
                                     pb::SnapshotResponse* response) override {
    return worker_.answer_snapshot(host_, context, request, response);
  }

 private:
  /// The engine may have stepped at a time that the clock of this host has not reached.
  [[nodiscard]] Instant now(const Engine& engine) const { return std::max(clock_.now(), engine.meta().now); }

  template <class Response, class Fn>
  grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* context, const google::protobuf::Message& request,
                                   Response* response, Fn fn) {
    return rpc::answer(host_, context, request, [response, fn](const service::Shell& shell) -> qm::Status {
      auto made = fn(engine_of(shell));
      if (!made) return tl::unexpected<Error>(made.error());
      *response = std::move(*made);
      return {};
    });
  }

  service::Host& host_;
  const DomainClock& clock_;
  rpc::Worker worker_;
};

}  // namespace

Result<pb::QueryAllocationResponse> query_allocation(const Engine& engine, const pb::QueryAllocationRequest& request,
                                                     Instant now, const rpc::Caller& caller) {
  QM_ASSIGN(const auto group, parse_group(request.group_by()));
  if (group == Group::kNode && !caller.everything) {
    return fail(Error{Code::kPermissionDenied, fmt::format("{} may not see what whole nodes cost", caller.name),
                      "group_by", "group by team, namespace or workload"});
  }
  QM_ASSIGN(const auto until, until_or_now(request.until_us(), now, "until_us"));
  if (request.from_us() < 0) {
    return fail(Error{Code::kInvalid, "from_us lies before 1970", "from_us", "use 0 for the beginning"});
  }
  QM_ASSIGN(const auto page, rpc::page_size(request.page_size(), kDefaultPage, kLargestPage));
  QM_ASSIGN(auto rows, engine.allocate(from_micros(request.from_us()), until, group));
  std::erase_if(rows, [&](const auto& row) { return !own(caller, group, row.first); });
  pb::QueryAllocationResponse out;
  Money total;
  for (const auto& [key, amount] : rows) total += amount.nano;
  out.set_total_nano_usd(total.nano());
  for (auto it = rows.upper_bound(request.page_token()); it != rows.end(); ++it) {
    if (static_cast<std::size_t>(out.rows_size()) == page) {
      out.set_next_page_token(out.rows(out.rows_size() - 1).key());
      break;
    }
    auto* row = out.add_rows();
    row->set_key(it->first);
    row->set_nano_usd(it->second.nano.nano());
    row->set_gpu_micros(it->second.gpu_micros);
  }
  return out;
}

Result<pb::Statement> get_statement(const Engine& engine, const pb::GetStatementRequest& request, Instant now,
                                    const rpc::Caller& caller) {
  QM_ASSIGN(const auto as_of, until_or_now(request.as_of_us(), now, "as_of_us"));
  QM_ASSIGN(const auto statement, engine.statement(request.period(), as_of));
  pb::Statement out;
  out.set_period(statement.period);
  out.set_as_of_us(micros(as_of));
  Money shown;
  for (const auto& [team, amount] : statement.lines) {
    if (!caller.everything && !caller.led.contains(team)) continue;
    shown += amount.nano;
    auto* line = out.add_lines();
    line->set_team(team);
    line->set_nano_usd(amount.nano.nano());
    line->set_gpu_micros(amount.gpu_micros);
  }
  out.set_total_nano_usd(shown.nano());
  out.set_imbalance_nano_usd(statement.imbalance.nano());
  // The whole bill minus the own lines would be the lines of others: a team lead gets only the part of it for the own
  // lines.
  out.set_provider_nano_usd(caller.everything ? statement.provider.nano() : shown.nano());
  if (!caller.everything) return out;
  out.set_open_instances(static_cast<std::int64_t>(statement.open_instances));
  return out;
}

pb::ListPricesResponse list_prices(const Engine& engine, const pb::ListPricesRequest& request, Instant now) {
  pb::ListPricesResponse out;
  for (const auto& price : engine.prices(now)) {
    if (!request.instance_type().empty() && price.entry.instance_type != request.instance_type()) continue;
    auto* row = out.add_prices();
    row->set_instance_type(price.entry.instance_type);
    row->set_capacity_type(price.entry.capacity_type);
    row->set_zone(price.entry.zone);
    row->set_nano_usd_hour(price.entry.rate.per_hour.nano());
    row->set_from_us(micros(price.from));
    row->set_source(price.source);
  }
  return out;
}

std::shared_ptr<grpc::Service> make_api(service::Host& host, const DomainClock& clock) {
  return std::make_shared<Api>(host, clock);
}

}  // namespace qm::cost
