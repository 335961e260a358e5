#include "prices.hpp"

#include "prices_data.hpp"
#include "qm/base/assert.hpp"
#include "text.hpp"

namespace qm::fleet {
namespace {

Result<std::int64_t> parse_count(std::string_view text) {
  const auto value = whole_number(text);
  if (!value || *value < 0) return fail(Code::kInvalid, "\"{}\" is not a count", text);
  return *value;
}

constexpr std::string_view kHeader =
    "instance_type,gpus,gpu_model,gpu_product,gpu_memory_mib,vcpu,memory_mib,on_demand_usd_hour,spot_usd_hour";

}  // namespace

Result<std::int64_t> parse_nano_usd(std::string_view text) {
  const auto dot = text.find('.');
  const auto whole = text.substr(0, dot);
  std::string decimals(dot == std::string_view::npos ? std::string_view{} : text.substr(dot + 1));
  if (decimals.size() > 9 || whole.size() > 9)
    return fail(Code::kInvalid, "\"{}\" is not a valid price in dollars", text);
  decimals.resize(9, '0');
  QM_ASSIGN(const auto dollars, parse_count(whole));
  QM_ASSIGN(const auto nanos, parse_count(decimals));
  return dollars * 1'000'000'000 + nanos;
}

Result<PriceTable> PriceTable::parse(std::string_view csv) {
  PriceTable table;
  const auto columns = split(kHeader, ',');
  int number = 0;
  for (std::string_view line : split(csv, '\n')) {
    const std::string place = fmt::format("line {}", ++number);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (number == 1 && line != kHeader) {
      return fail({Code::kInvalid, "the price table has other columns", place, fmt::format("use {}", kHeader)});
    }
    if (number == 1 || line.empty()) continue;
    const auto cells = split(line, ',');
    if (cells.size() != columns.size()) {
      return fail({Code::kInvalid, fmt::format("{} columns instead of {}", cells.size(), columns.size()), place,
                   "every line needs all columns; leave a cell empty for none"});
    }
    InstanceType type;
    type.name = std::string(cells[0]);
    type.gpu_model = std::string(cells[2]);
    type.gpu_product = std::string(cells[3]);
    const auto read = [&](std::size_t column, auto reader, std::int64_t& into) -> Status {
      auto value = reader(cells[column].empty() ? std::string_view("0") : cells[column]);
      if (!value) {
        auto error = value.error();
        error.field = fmt::format("{}, {}", place, columns[column]);
        return fail(std::move(error));
      }
      into = *value;
      return {};
    };
    QM_TRY(read(1, parse_count, type.gpus));
    QM_TRY(read(4, parse_count, type.gpu_memory_mib));
    QM_TRY(read(5, parse_count, type.vcpu));
    QM_TRY(read(6, parse_count, type.memory_mib));
    QM_TRY(read(7, parse_nano_usd, type.on_demand_nano_hour));
    QM_TRY(read(8, parse_nano_usd, type.spot_nano_hour));
    table.add(std::move(type));
  }
  return table;
}

const PriceTable& PriceTable::built_in() {
  static const PriceTable table = [] {
    auto parsed = parse(kPricesCsv);
    QM_ASSERT(parsed.has_value(), "prices.csv: {}", parsed.error().to_string());
    return *parsed;
  }();
  return table;
}

const InstanceType* PriceTable::find(const std::string& type) const { return find_in(types_, type); }

}  // namespace qm::fleet
