// When: copies the rows, and simulates futures from them on a thread of its own.
#include "qm/admission/api/when_api.hpp"

#include "qm/admission/api/copied_rows.hpp"
#include "qm/admission/codec.hpp"
#include "rows/rows.hpp"

namespace qm::admission {
namespace {

namespace pb = quartermaster::v1;

/// The instant, rounded down to a second.
std::string second_of(Instant at) { return to_rfc3339(from_micros(micros(at) / 1'000'000 * 1'000'000)); }

std::string words_of(const forecast::JobClass& job_class) {
  if (job_class == forecast::JobClass{}) return "all workloads";
  if (job_class.shape == forecast::JobClass::kPromises)
    return fmt::format("team {}, against what it declares", job_class.team);
  std::string out =
      job_class.team.empty() ? job_class.shape : fmt::format("team {}, {}", job_class.team, job_class.shape);
  if (!job_class.stem.empty()) out += ", " + job_class.stem;
  return out;
}

/// Records the published estimate for the correction. The answer does not depend on it, so a full mailbox is
/// not an error.
void remember(service::Host& host, const WorkloadUid& uid, const StartEstimate& estimate) {
  quartermaster::admission::EstimateNote note;
  note.set_uid(uid.value());
  *note.mutable_estimate() = to_row(estimate);
  service::Input input;
  input.source = service::Source::kRequest;
  input.name = kEstimated;
  input.key = uid.value();
  input.bytes = note.SerializeAsString();
  (void)host.submit(std::move(input));
}

}  // namespace

void put_when(const When& when, const Tables& rows, const WorkloadUid& uid, const rpc::Caller& caller, Instant now,
              pb::WhenResponse& response) {
  const auto& spec = rows.workloads.find(uid)->spec;
  const std::string workload_name = fmt::format("{}/{}", spec.ns, spec.name);
  response.set_uid(uid.value());
  response.set_now_us(micros(now));
  response.set_futures(when.futures);
  response.set_started(when.started);
  if (when.declared.expected) response.set_declared_us(when.declared.expected->count());
  if (when.declared.deadline) response.set_limit_us(when.declared.deadline->count());
  if (when.evidence.lives > 0) {
    response.set_run_times(when.evidence.lives);
    response.set_run_times_of(words_of(when.evidence.of));
  }
  for (const auto& one : when.waits_for) {
    const auto* other = rows.workloads.find(one.uid);
    if (other != nullptr && caller.sees(other->spec.ns.value(), other->spec.team.value())) {
      auto& awaited = *response.add_waits_for();
      awaited.set_workload(fmt::format("{}/{}", other->spec.ns, other->spec.name));
      awaited.set_futures(one.futures);
    } else {
      response.set_hidden(response.hidden() + 1);
    }
  }
  if (when.unknown) {
    auto& cause = *response.mutable_unknown();
    cause.set_code(when.unknown->code);
    cause.set_message(when.unknown->message);
    cause.set_remedy(when.unknown->remedy);
    response.set_summary(fmt::format("{}: no forecast: {}", workload_name, when.unknown->message));
    return;
  }
  response.set_p10_us(micros(*when.low));
  if (when.middle) response.set_p50_us(micros(*when.middle));
  if (when.high) response.set_p90_us(micros(*when.high));
  response.set_summary(
      when.high ? fmt::format("{} starts between {} and {} with 80 %", workload_name, second_of(*when.low),
                              second_of(*when.high + std::chrono::microseconds(999'999)))
                : fmt::format("{} starts at {} or later with 90 %, and after more than 14 days with 10 % or more",
                              workload_name, second_of(*when.low)));
}

Status answer_when(service::Host& host, const WorkloadUid& uid, const rpc::Caller& caller, Instant now,
                   pb::WhenResponse& response) {
  const auto taken = copied(RowsCopy(uid, now - kArrivalsOf), host);
  QM_ASSIGN(const auto found, when(taken.rows, taken.options, uid, now));
  put_when(found, taken.rows, uid, caller, now, response);
  if (found.record) remember(host, uid, *found.record);
  return {};
}

}  // namespace qm::admission
