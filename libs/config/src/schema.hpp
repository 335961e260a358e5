#pragma once
#include "qm/base/json.hpp"

#include <string>
#include <string_view>
#include <vector>

/// Structural OpenAPI v3 schemas for CustomResourceDefinitions. Each describes the values that the reader of the
/// same name accepts; where a schema cannot express it, the schema accepts more, and the reader refuses the rest.
namespace qm::config::schema {

Json anything();
Json text(int least_length = 1);
Json pattern(std::string_view expression);
Json integer(std::int64_t least, std::int64_t most);
Json boolean();
Json one_of(const std::vector<std::string>& allowed);
Json quantity();
/// A decimal number of dollars. An API server accepts text and whole numbers only: a fraction needs quotes.
Json money();
Json duration(bool never);
Json object(Json properties, Json required);
Json map_of(Json values);
Json list_of(Json items);

Json described(std::string_view text, Json schema);
Json ruled(std::string_view rule, std::string_view message, Json schema);

}  // namespace qm::config::schema
