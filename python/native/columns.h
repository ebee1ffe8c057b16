// The rows of a result by column, in memory that NumPy and Arrow share.
#pragma once

#include <pybind11/numpy.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "python/native/bind.h"

namespace corun::python {

/// Words that a column refers to by number.
struct Words {
  std::vector<std::string> words;     // no two equal, all UTF-8
  std::vector<std::int32_t> offsets;  // into `bytes`, one more than words: Arrow's layout
  std::string bytes;
};

struct Column {
  std::string name;
  char kind{};  // NumPy's: u, i, f, b
  std::size_t offset = 0, size = 0;  // in a row
  std::vector<std::byte> data;
  // Arrow's bits, lowest first
  std::vector<std::uint8_t> present;  // empty: all are; else of the floats that are no NaN
  std::int64_t absent = 0;
  std::vector<std::uint8_t> truth;  // of a bool
  std::optional<Words> words;
};

/// Never changed once it is made. Whatever looks at its memory shares it.
struct Columns {
  std::int64_t rows = 0;
  std::vector<Column> columns;
  const Column* find(const std::string& name) const;
};

/// Columns, without data, for the fields of a structured dtype.
std::vector<Column> columns_like(const py::dtype& row);

/// Replaces the ids of column `name` by the numbers of words: what ids stand for, in their order.
void put_words(Columns& table, const std::string& name, std::span<const std::string> of_ids);

/// Adds what only Arrow has: which values are there, bits of bools.
void finish(Columns& table);

/// One pass over the records, which `row` turns into a Row of PYBIND11_NUMPY_DTYPE.
template <class Row, class Record, class MakeRow>
Columns columns_of(const std::vector<Record>& records, MakeRow row) {
  Columns out{static_cast<std::int64_t>(records.size()), columns_like(py::dtype::of<Row>())};
  for (Column& c : out.columns) c.data.resize(records.size() * c.size);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Row made = row(records[i]);
    for (Column& c : out.columns)
      std::memcpy(c.data.data() + i * c.size, reinterpret_cast<const std::byte*>(&made) + c.offset, c.size);
  }
  return out;
}

void bind_columns(py::module_& m);

}  // namespace corun::python
