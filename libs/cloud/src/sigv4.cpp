#include "qm/cloud/sigv4.hpp"

#include "qm/base/assert.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/parse.hpp"
#include "text.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

namespace qm::cloud {
namespace {

constexpr std::string_view kAlgorithm = "AWS4-HMAC-SHA256";

std::string hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned int size = 0;
  const auto* done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                          reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data(), &size);
  QM_ASSERT(done != nullptr, "OpenSSL computes no HMAC-SHA256");
  return {reinterpret_cast<const char*>(out.data()), size};
}

std::string hex(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) fmt::format_to(std::back_inserter(out), "{:02x}", static_cast<unsigned char>(c));
  return out;
}

/// Escapes everything but the unreserved characters and '/', including '%': the path on the wire is encoded twice.
std::string encode_path(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-_.~/").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

/// Removes ".", ".." and empty segments; keeps a trailing slash.
std::string normal_path(std::string_view path) {
  std::vector<std::string_view> kept;
  for (const auto segment : split(path, '/')) {
    if (segment.empty() || segment == ".") continue;
    if (segment == "..") {
      if (!kept.empty()) kept.pop_back();
    } else {
      kept.push_back(segment);
    }
  }
  std::string out;
  for (const auto segment : kept) out.append("/").append(segment);
  if (out.empty() || path.ends_with('/')) out += '/';
  return out;
}

std::string canonical_query(std::string_view query) {
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  for (const auto part : split(query, '&')) {
    if (part.empty()) continue;
    const auto equals = part.find('=');
    pairs.emplace_back(part.substr(0, equals),
                       equals == std::string_view::npos ? std::string_view{} : part.substr(equals + 1));
  }
  std::sort(pairs.begin(), pairs.end());
  std::string out;
  for (const auto& [key, value] : pairs) {
    if (!out.empty()) out += '&';
    out.append(key).append("=").append(value);
  }
  return out;
}

/// Trims the ends, and replaces inner runs of spaces by one.
std::string plain_value(std::string_view value) {
  std::string out;
  for (const char c : value) {
    const bool space = c == ' ' || c == '\t';
    if (space && (out.empty() || out.back() == ' ')) continue;
    out += space ? ' ' : c;
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

/// Lower-case names in order; the values of equal names are joined by commas in the given order.
std::vector<std::pair<std::string, std::string>> canonical_headers(const SigningInput& in) {
  std::vector<std::pair<std::string, std::string>> list;
  bool dated = false;
  for (const auto& [name, value] : in.headers) {
    list.emplace_back(lower(name), plain_value(value));
    dated = dated || list.back().first == "x-amz-date";
  }
  if (!dated) list.emplace_back("x-amz-date", in.amz_date);
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::pair<std::string, std::string>> out;
  for (auto& [name, value] : list) {
    if (!out.empty() && out.back().first == name) {
      out.back().second.append(",").append(value);
    } else {
      out.emplace_back(std::move(name), std::move(value));
    }
  }
  return out;
}

std::string signed_names(const SigningInput& in) {
  std::string out;
  for (const auto& [name, value] : canonical_headers(in)) {
    if (!out.empty()) out += ';';
    out += name;
  }
  return out;
}

std::string scope(const SigningInput& in) {
  return fmt::format("{}/{}/{}/aws4_request", in.amz_date.substr(0, 8), in.region, in.service);
}

}  // namespace

std::string canonical_request(const SigningInput& in) {
  std::string headers;
  for (const auto& [name, value] : canonical_headers(in)) headers.append(name + ":" + value + "\n");
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", in.method, encode_path(normal_path(in.path)), canonical_query(in.query),
                     headers, signed_names(in), sha256_hex(in.body));
}

std::string string_to_sign(const SigningInput& in) {
  return fmt::format("{}\n{}\n{}\n{}", kAlgorithm, in.amz_date, scope(in), sha256_hex(canonical_request(in)));
}

std::string signature(const SigningInput& in) {
  std::string key = hmac("AWS4" + in.secret_key, in.amz_date.substr(0, 8));
  for (const std::string_view part :
       {std::string_view(in.region), std::string_view(in.service), std::string_view("aws4_request")}) {
    key = hmac(key, part);
  }
  return hex(hmac(key, string_to_sign(in)));
}

std::string authorization_header(const SigningInput& in) {
  return fmt::format("{} Credential={}/{}, SignedHeaders={}, Signature={}", kAlgorithm, in.access_key, scope(in),
                     signed_names(in), signature(in));
}

std::optional<Authorization> parse_authorization(std::string_view header) {
  if (!header.starts_with(kAlgorithm)) return std::nullopt;
  header.remove_prefix(kAlgorithm.size());
  Authorization out;
  bool scoped = false;
  for (auto part : split(header, ',')) {
    part = trim(part);
    const auto equals = part.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const auto name = part.substr(0, equals);
    const auto value = part.substr(equals + 1);
    if (name == "Credential") {
      const auto pieces = split(value, '/');
      if (pieces.size() != 5 || pieces[4] != "aws4_request") return std::nullopt;
      out.access_key = pieces[0];
      out.date = pieces[1];
      out.region = pieces[2];
      out.service = pieces[3];
      scoped = true;
    } else if (name == "SignedHeaders") {
      for (const auto signed_name : split(value, ';')) out.signed_headers.emplace_back(signed_name);
    } else if (name == "Signature") {
      out.signature = value;
    }
  }
  if (!scoped || out.signature.empty() || out.signed_headers.empty()) return std::nullopt;
  return out;
}

std::string amz_date(std::int64_t utc_seconds) {
  const std::chrono::sys_seconds at{std::chrono::seconds(utc_seconds)};
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(at - day);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), time.hours().count(),
                     time.minutes().count(), time.seconds().count());
}

}  // namespace qm::cloud
