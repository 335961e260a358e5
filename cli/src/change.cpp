// Verbs that change something: apply, submit, cancel, stop, resume, check.
#include "commands.hpp"
#include "print.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/text.hpp"
#include "qm/config/manifest.hpp"
#include "qm/wire/model.hpp"
#include "qm/wire/words.hpp"
#include "table.hpp"
#include "words.hpp"

#include <fmt/ranges.h>

#include <ostream>
#include <random>

namespace qm::cli {
namespace {

/// 128 random bits: one id for all attempts of an invocation.
std::string fresh_id() {
  std::random_device device;
  std::string id = "qmctl-";
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", device());
  return id;
}

/// If no answer arrived, the change may have been made; the id allows a retry that does not apply it twice.
template <class Response>
Result<Response> settled(Result<Response> answer, const std::string& request_id) {
  if (answer) return answer;
  auto& error = answer.error();
  const bool open = error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded ||
                    error.code == Code::kUnknown || error.code == Code::kCancelled;
  if (open) {
    error.remedy += fmt::format("{}it may have been done: repeat with --request-id {} to be sure of doing it once",
                                error.remedy.empty() ? "" : "; ", request_id);
  }
  return answer;
}

template <class Amounts>
std::string amounts_of(const Amounts& amounts) {
  std::string out;
  for (const auto& [resource, amount] : std::map<std::string, std::int64_t>(amounts.begin(), amounts.end())) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", resource.substr(resource.find('/') + 1), amount);
  }
  return out;
}

Status list_layouts(Context& context) {
  QM_ASSIGN(const auto answer, context.client.layouts());
  if (context.structured()) {
    print(context, answer);
    return {};
  }
  if (answer.nodes().empty()) {
    context.err << "no node has GPUs that support MIG\n";
    return {};
  }
  Table table({{"NODE"},
               {"GPU-MODEL"},
               {"LABEL"},
               {"STATE"},
               {"ADVERTISED"},
               {"LAYOUT"},
               {"PHASE"},
               {"FROM"},
               {"REASON"},
               {"FINDING"}});
  for (const auto& n : answer.nodes()) {
    const auto& order = n.order();
    table.row({n.node(), n.gpu_model(), n.label(), n.state(), amounts_of(n.advertised()), order.layout(), order.phase(),
               instant(order.from_us()), order.reason(), n.finding()});
  }
  context.out << table.text();
  return {};
}

/// The request id of each file of one call; the same ids if the call is repeated.
std::string id_of_file(const std::string& id, std::size_t file) {
  if (file == 0) return id;
  auto out = fmt::format("{}/{}", id, file);
  return out.size() <= kMaxRequestId ? out : sha256_hex(out);
}

}  // namespace

Status run_verb(Context& context, const LayoutsVerb& verb) {
  if (verb.files.empty() && verb.withdraw.empty()) return list_layouts(context);
  pb::OrderLayoutsRequest request;
  request.set_request_id(verb.request_id.empty() ? fresh_id() : verb.request_id);
  request.set_dry_run(verb.dry_run);
  for (const auto& node : verb.withdraw) request.add_withdraw(node);
  std::string manifest, source;
  for (const auto& file : context.manifests) {  // one call for all: layout definitions and assignments
    manifest += (manifest.empty() ? "" : "\n---\n") + file.text;
    source = source.empty() ? file.source : source + "+" + file.source;
  }
  request.set_manifest(manifest);
  request.set_source(source);
  QM_ASSIGN(const auto answer, settled(context.client.order_layouts(request), request.request_id()));
  if (context.structured()) {
    print(context, answer);
    return {};
  }
  for (const auto& warning : answer.warnings()) context.err << "warning: " << printable(warning) << '\n';
  for (const auto& layout : answer.layouts()) context.out << "layout " << printable(layout) << " is known\n";
  for (const auto& order : answer.orders()) {
    context.out << fmt::format("{}: {} ({}), {}{}{}\n", order.node(), order.layout(), amounts_of(order.capacity()),
                               order.phase(), order.reason().empty() ? "" : ": " + printable(order.reason()),
                               order.from_us() == 0 ? "" : " from " + instant(order.from_us()));
  }
  return {};
}

Status run_verb(Context& context, const ApplyVerb& verb) {
  QM_TRY(check_manifests(context, verb.allow_unknown, Workloads::kRefused));
  if (!verb.replace) QM_TRY(check_replaced(context, verb.dry_run));
  const std::string id = verb.request_id.empty() ? fresh_id() : verb.request_id;
  pb::ApplyResponse all;
  for (std::size_t i = 0; i < context.manifests.size(); ++i) {
    const auto& manifest = context.manifests[i];
    pb::ApplyRequest request;
    // One call for each file, so that an error refers to the lines of its own file.
    request.set_request_id(id_of_file(id, i));
    request.set_manifest(manifest.text);
    request.set_source(manifest.source);
    request.set_dry_run(verb.dry_run);
    const auto answer = settled(context.client.apply(request), id);
    if (!answer) {
      auto error = answer.error();
      if (i > 0 && !verb.dry_run) error.message += fmt::format(" ({} files before it are applied)", i);
      return fail(std::move(error));
    }
    all.MergeFrom(*answer);
  }
  if (context.structured()) {
    print(context, all);
  } else {
    for (const auto& warning : all.warnings()) context.err << "warning: " << warning << '\n';
    for (const auto& object : all.applied())
      context.out << object << (verb.dry_run ? " would be applied\n" : " applied\n");
  }
  if (!all.applied().empty()) return {};
  return fail(Error{Code::kFailedPrecondition, "nothing was applied: admission reads none of these objects", "--file",
                    "create them with kubectl apply -f FILE"});
}

Status run_verb(Context& context, const SubmitVerb& verb) {
  pb::SubmitRequest request;
  request.set_request_id(verb.request_id.empty() ? fresh_id() : verb.request_id);
  if (verb.file.empty()) {
    QM_TRY(config::workload_from_job(config::job_from_workload(verb.spec, verb.annotations)));
    *request.mutable_spec() = wire::to_pb(verb.spec);
  } else {
    QM_TRY(check_manifests(context, verb.allow_unknown, Workloads::kRead));
    request.set_manifest(context.manifests.at(0).text);
  }
  for (const auto& [key, value] : verb.annotations) (*request.mutable_pod_annotations())[key] = value;
  auto submitted = settled(context.client.submit(request), request.request_id());
  if (!submitted && !verb.file.empty()) return fail(submitted.error().with_context(verb.file));
  QM_ASSIGN(const auto answer, std::move(submitted));
  if (context.structured()) {
    print(context, answer);
  } else {
    context.out << fmt::format("{} {}/{} submitted\n", answer.kind(), answer.namespace_(), answer.name());
  }
  return {};
}

Status run_verb(Context& context, const CancelVerb& verb) {
  pb::CancelRequest request;
  request.set_request_id(verb.request_id.empty() ? fresh_id() : verb.request_id);
  request.set_namespace_(verb.workload.ns);
  request.set_name(verb.workload.name);
  request.set_reason(verb.reason);
  QM_ASSIGN(const auto answer, settled(context.client.cancel(request), request.request_id()));
  if (context.structured()) {
    print(context, answer);
  } else {
    context.out << fmt::format("{} is {}\n", verb.workload.to_string(), wire::word_of(answer.phase()));
  }
  return {};
}

Status run_verb(Context& context, const ActiveVerb& verb) {
  pb::SetActiveRequest request;
  request.set_request_id(verb.request_id.empty() ? fresh_id() : verb.request_id);
  request.set_namespace_(verb.workload.ns);
  request.set_name(verb.workload.name);
  request.set_active(verb.active);
  request.set_reason(verb.reason);
  QM_ASSIGN(const auto answer, settled(context.client.set_active(request), request.request_id()));
  if (context.structured()) {
    print(context, answer);
  } else {
    context.out << fmt::format("{} is {} and {}\n", verb.workload.to_string(), verb.active ? "active" : "not active",
                               wire::word_of(answer.phase()));
  }
  return {};
}

Status run_verb(Context& context, const CheckVerb& verb) {
  pb::AnswerCheckRequest request;
  request.set_request_id(verb.request_id.empty() ? fresh_id() : verb.request_id);
  request.set_namespace_(verb.workload.ns);
  request.set_name(verb.workload.name);
  request.set_check(verb.check);
  request.set_state(verb.state);
  request.set_message(verb.message);
  request.set_retry_after_us(verb.retry_after.count());
  QM_ASSIGN(const auto answer, settled(context.client.answer_check(request), request.request_id()));
  if (context.structured()) {
    print(context, answer);
  } else {
    context.out << fmt::format("check {} of {} is {}; it is {}\n", verb.check, verb.workload.to_string(),
                               wire::word_of(verb.state), wire::word_of(answer.phase()));
  }
  return {};
}

}  // namespace qm::cli
