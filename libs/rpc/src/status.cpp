#include "qm/rpc/server.hpp"

#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>

#include <algorithm>
#include <string_view>

namespace qm::rpc {
namespace {

constexpr std::string_view kDomain = "quartermaster.dev";
/// The exhausted resource is a bounded queue that a batch or two empties.
constexpr std::int64_t kRetryAfterSeconds = 1;
/// A status is sent in the trailers, which clients bound at 8 KiB, once as text and once inside the details.
constexpr std::size_t kMaxMessage = 2000, kMaxField = 200, kMaxRemedy = 500;

/// Truncates at a character boundary, as a partial character would make the whole message unreadable.
std::string bounded(std::string_view text, std::size_t max) {
  if (text.size() <= max) return std::string(text);
  std::size_t end = max - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace

grpc::Status to_grpc(const Error& error) {
  const auto message = bounded(error.message, kMaxMessage);
  google::rpc::Status status;
  status.set_code(static_cast<int>(error.code));
  status.set_message(message);
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(name_of(error.code)));
  info.set_domain(std::string(kDomain));
  if (!error.remedy.empty()) {
    (*info.mutable_metadata())["remedy"] = bounded(error.remedy, kMaxRemedy);
  }
  status.add_details()->PackFrom(info);
  if (error.code == Code::kExhausted) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(kRetryAfterSeconds);
    status.add_details()->PackFrom(retry);
  }
  if (!error.field.empty()) {
    google::rpc::BadRequest request;
    auto* violation = request.add_field_violations();
    violation->set_field(bounded(error.field, kMaxField));
    status.add_details()->PackFrom(request);
  }
  return {static_cast<grpc::StatusCode>(error.code), message, status.SerializeAsString()};
}

Error from_grpc(const grpc::Status& status, const std::string& call) {
  Error error;
  const int code = status.error_code();
  const bool ours = code >= 1 && code <= 16 && code != grpc::StatusCode::DATA_LOSS;
  error.code = ours ? static_cast<Code>(code) : Code::kInternal;
  error.message = status.error_message();
  google::rpc::Status details;
  if (!status.error_details().empty() && details.ParseFromString(status.error_details())) {
    for (const auto& any : details.details()) {
      google::rpc::ErrorInfo info;
      google::rpc::BadRequest request;
      if (any.Is<google::rpc::ErrorInfo>() && any.UnpackTo(&info)) {
        const auto remedy = info.metadata().find("remedy");
        if (remedy != info.metadata().end()) error.remedy = remedy->second;
      } else if (any.Is<google::rpc::BadRequest>() && any.UnpackTo(&request) && request.field_violations_size() > 0) {
        error.field = request.field_violations(0).field();
      }
    }
  }
  // A call that was denied before its handler ran has no details; the remedy is in its text.
  constexpr std::string_view kRemedy = " (remedy: ";
  if (const auto at = error.message.find(kRemedy);
      status.error_details().empty() && at != std::string::npos && error.message.ends_with(')')) {
    error.remedy = error.message.substr(at + kRemedy.size(), error.message.size() - at - kRemedy.size() - 1);
    error.message.resize(at);
  }
  return error.with_context(call);
}

std::string trace_parent(const grpc::CallbackServerContext& context) {
  // version "-" 32 hex "-" 16 hex "-" 2 hex; any other text is dropped.
  constexpr std::size_t kLength = 55;
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("traceparent");
  if (found == metadata.end() || found->second.size() != kLength) return {};
  const auto part = [](char c) { return c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (!std::all_of(found->second.begin(), found->second.end(), part)) return {};
  return {found->second.data(), found->second.size()};
}

}  // namespace qm::rpc
