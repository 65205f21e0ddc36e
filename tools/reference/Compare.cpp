//===- Compare.cpp - Is a kernel's result right? ------------------------------===//
#include "tools/reference/Compare.h"

#include "tools/reference/Prepared.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>

namespace attune::reference {

namespace {

std::string number(double value) {
  if (std::isnan(value))
    return "nan"; // of either sign
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string indexText(std::span<const int64_t> index) {
  std::string text = "[";
  for (size_t i = 0; i < index.size(); ++i)
    text += (i ? ", " : "") + std::to_string(index[i]);
  return text + "]";
}

bool sameSpecial(double a, double b) { return (std::isnan(a) && std::isnan(b)) || a == b; }

/// RMS of finite errors.
struct Mean {
  double squares = 0;
  int64_t count = 0;
  void add(double error, int64_t times = 1) {
    squares += double(times) * error * error;
    count += times;
  }
  double rms() const { return count ? std::sqrt(squares / double(count)) : 0; }
};

/// Compares the rows of a result with the reference's.
class ComparedRows {
public:
  ComparedRows(std::string name, const HostTensor &actual, const std::vector<double> &exact,
               const std::vector<double> &plain, const Output &output, int64_t columns, uint8_t reachedFrom)
      : actual(actual), exact(exact), plain(plain), output(output), columns(columns), reachedFrom(reachedFrom) {
    result.name = std::move(name);
    result.rows = output.batch * output.heads * output.queryLength;
  }

  /// `limitOf(row, error of the plain computation)` is what a row may err by.
  template <typename Limit> void compare(Limit limitOf) {
    for (int64_t row = 0; row < result.rows; ++row)
      compareRow(row, limitOf);
    result.rmsError = all.rms();
    result.plainError = allPlain.rms();
  }

  Comparison result;
  Mean allExpected; ///< oError over the rows that count

private:
  template <typename Limit> void compareRow(int64_t row, Limit limitOf) {
    Mean mine, plains;
    std::string wrong;
    bool unchecked = false;
    for (int64_t i = row * columns; i < (row + 1) * columns; ++i) {
      double value = actual.at(i), right = exact[size_t(i)];
      if (std::isfinite(right) && std::isfinite(plain[size_t(i)]))
        plains.add(plain[size_t(i)] - right);
      if (std::isfinite(right) && std::isfinite(value)) {
        mine.add(value - right);
        result.maxError = std::max(result.maxError, std::fabs(value - right));
      } else if (!std::isfinite(value) && (output.maskedNonFinite[size_t(row)] & reachedFrom)) {
        unchecked = true;
      } else if (!isRightSpecial(value, right, plain[size_t(i)]) && wrong.empty()) {
        wrong = indexText(indexOf(i)) + " is " + number(value) + ", the reference has " + number(right);
      }
    }
    result.uncheckedRows += unchecked;
    if (mine.count) {
      all.add(mine.rms(), mine.count);
      allPlain.add(plains.rms(), plains.count);
      allExpected.add(output.oError[size_t(row)], mine.count);
    }
    if (mine.count || !wrong.empty())
      note(row, wrong.empty() ? mine.rms() : infinity, limitOf(row, plains.rms()), wrong);
  }

  /// Whether `value` will do where one of the two is not finite.
  bool isRightSpecial(double value, double right, double plainly) const {
    if (std::isfinite(right)) // the dtype may be narrower than float64
      return !std::isfinite(roundTo(actual.dtype, float(right))) &&
             sameSpecial(value, roundTo(actual.dtype, float(right)));
    if (right == -infinity && columns == 1 && result.name == "lse")
      return value == right;
    return sameSpecial(value, right) || (!std::isfinite(value) && sameSpecial(value, plainly));
  }

  void note(int64_t row, double error, double limit, const std::string &wrong) {
    if (!wrong.empty() || !(error <= limit)) {
      result.pass = false;
      ++result.badRows;
    }
    double ratio = error == infinity ? infinity : limit > 0 ? error / limit : error > 0 ? infinity : 0;
    if (ratio <= worstRatio)
      return;
    worstRatio = ratio;
    result.worstError = error;
    result.worstLimit = limit;
    result.worstValue = wrong;
    result.worstRow = {row / output.queryLength / output.heads, row / output.queryLength % output.heads,
                       row % output.queryLength};
  }

  std::vector<int64_t> indexOf(int64_t i) const {
    int64_t row = i / columns;
    std::vector<int64_t> index = {row / output.queryLength / output.heads, row / output.queryLength % output.heads,
                                  row % output.queryLength};
    if (result.name == "o")
      index.push_back(i % columns);
    return index;
  }

  const HostTensor &actual;
  const std::vector<double> &exact, &plain;
  const Output &output;
  int64_t columns;
  uint8_t reachedFrom; ///< what of the hidden keys may reach a row
  Mean all, allPlain;
  double worstRatio = -1;
};

Comparison wrongShape(std::string name, const HostTensor &actual, const std::vector<int64_t> &required) {
  Comparison result;
  result.pass = false;
  result.worstError = infinity;
  result.worstValue = "has shape " + indexText(actual.shape) + ", required is " + indexText(required);
  result.name = std::move(name);
  return result;
}

} // namespace

Comparison compareO(const HostTensor &o, const Output &exact, const Output &plain) {
  std::vector<int64_t> shape = {exact.batch, exact.heads, exact.queryLength, exact.headDimV};
  if (o.shape != shape)
    return wrongShape("o", o, shape);
  ComparedRows rows("o", o, exact.o, plain.o, exact, exact.headDimV, Output::InKeys | Output::InValues);
  rows.compare([&](int64_t row, double plainError) { return std::max(2 * plainError, 3 * exact.oError[size_t(row)]); });
  Comparison &result = rows.result;
  double tail = 2 + 1 / std::sqrt(double(std::max<int64_t>(result.rows, 1)));
  result.limit = std::max(2 * result.plainError, tail * rows.allExpected.rms());
  result.pass &= result.rmsError <= result.limit;
  return result;
}

Comparison compareLse(const HostTensor &lse, const Output &exact, const Output &plain) {
  std::vector<int64_t> shape = {exact.batch, exact.heads, exact.queryLength};
  if (lse.shape != shape)
    return wrongShape("lse", lse, shape);
  ComparedRows rows("lse", lse, exact.lse, plain.lse, exact, 1, Output::InKeys);
  rows.compare([&](int64_t row, double) { return 2 * exact.lseError[size_t(row)]; });
  Mean limits;
  for (int64_t row = 0; row < rows.result.rows; ++row)
    if (std::isfinite(exact.lse[size_t(row)]))
      limits.add(2 * exact.lseError[size_t(row)]);
  rows.result.limit = limits.rms();
  return rows.result;
}

double Comparison::ratio() const {
  double worst = worstLimit > 0 ? worstError / worstLimit : worstError;
  return std::max(worst, limit > 0 ? rmsError / limit : rmsError);
}

std::string Comparison::describe() const {
  std::string text = name + ": ";
  if (!worstValue.empty() && worstRow.empty())
    return text + worstValue;
  if (!worstValue.empty())
    text += worstValue + "; ";
  else if (badRows)
    text += "row " + indexText(worstRow) + " has an error of " + number(worstError) + ", allowed is " +
            number(worstLimit) + "; ";
  if (badRows)
    text += std::to_string(badRows) + " of " + std::to_string(rows) + " rows are bad; ";
  text += "rms " + number(rmsError) + " (limit " + number(limit) +
          (plainError > 0 ? ", plain " + number(plainError) : "") + ")";
  if (!badRows && !worstRow.empty())
    text += ", row " + indexText(worstRow) + " " + number(worstError) + " of " + number(worstLimit);
  text += ", max " + number(maxError);
  if (uncheckedRows)
    text += "; " + std::to_string(uncheckedRows) + " of " + std::to_string(rows) +
            " rows not checked, keys hidden from them hold NaN or infinities";
  return text;
}

} // namespace attune::reference
