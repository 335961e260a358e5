#pragma once
#include "qm/base/result.hpp"

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace qm {

/// An exact Kubernetes quantity: "100m", "1.5", "8Gi", "1e3", "12E". Stored in nano-units of 128 bits.
///
/// Range    as apimachinery: binary forms are capped at 2^63-1, decimal ones may be larger ("12E"); here up to
///          1.7e29, larger ones are refused. Finer than nano rounds up (away from zero).
/// Fails    kInvalid has the text and the remedy. A sum out of range is an assertion failure.
/// Source   Kubernetes API conventions, resource quantities; canonical form as apimachinery prints it.
class Quantity {
 public:
  enum class Format { kDecimalSi, kBinarySi, kDecimalExponent };
  Quantity() = default;
  static Result<Quantity> parse(std::string_view text);
  static Quantity of(std::int64_t units, Format format = Format::kDecimalSi);
  static Quantity of_milli(std::int64_t milli, Format format = Format::kDecimalSi);

  [[nodiscard]] std::string to_string() const;  ///< canonical: no fraction, largest suffix that keeps it exact
  [[nodiscard]] std::int64_t units() const;     ///< rounded away from zero, as Kubernetes' Value(); saturates
  [[nodiscard]] std::int64_t milli() const;     ///< rounded away from zero, as Kubernetes' MilliValue(); saturates
  [[nodiscard]] bool negative() const { return nano_ < 0; }
  [[nodiscard]] Format format() const { return format_; }
  /// If the left side is zero the result has the other's format, else the left one's.
  [[nodiscard]] Quantity operator+(const Quantity& other) const;
  [[nodiscard]] Quantity operator-(const Quantity& other) const;
  friend std::strong_ordering operator<=>(const Quantity& a, const Quantity& b) { return a.nano_ <=> b.nano_; }
  friend bool operator==(const Quantity& a, const Quantity& b) { return a.nano_ == b.nano_; }

 private:
  __extension__ typedef __int128 Wide;
  Wide nano_ = 0;
  Format format_ = Format::kDecimalSi;
};

}  // namespace qm
