// Columns to NumPy, as views, and to Arrow, by its C data interface (arrow.apache.org/docs/format/CDataInterface.html).
#include "python/native/columns.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "traces/model/error.h"

// As the interface has them; a library that includes its own has the same.
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
extern "C" {
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;  // 2: may be null
  std::int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};
}
#endif
#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
extern "C" {
struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema*);
  int (*get_next)(ArrowArrayStream*, ArrowArray*);
  const char* (*get_last_error)(ArrowArrayStream*);
  void (*release)(ArrowArrayStream*);
  void* private_data;
};
}
#endif

namespace corun::python {

const Column* Columns::find(const std::string& name) const {
  for (const Column& c : columns)
    if (c.name == name) return &c;
  return nullptr;
}

std::vector<Column> columns_like(const py::dtype& row) {
  std::vector<Column> out;
  const py::dict fields = row.attr("fields");
  for (const py::handle name : row.attr("names")) {
    const py::tuple field = fields[name];
    const py::object kind = field[0];
    Column& c = out.emplace_back();
    c.name = name.cast<std::string>();
    c.kind = kind.attr("kind").cast<char>();
    c.offset = field[1].cast<std::size_t>();
    c.size = kind.attr("itemsize").cast<std::size_t>();  // pybind11 2.10 looks for it where NumPy 1 had it
  }
  return out;
}

void put_words(Columns& table, const std::string& name, std::span<const std::string> of_ids) {
  Words words;
  std::map<std::string, std::int32_t> known;
  std::vector<std::int32_t> of_id;
  words.offsets.push_back(0);
  for (const std::string& raw : of_ids) {
    const auto text = py::reinterpret_steal<py::str>(
        PyUnicode_DecodeUTF8(raw.data(), static_cast<py::ssize_t>(raw.size()), "replace"));
    const auto word = text.cast<std::string>();
    const auto [at, fresh] = known.emplace(word, static_cast<std::int32_t>(words.words.size()));
    if (fresh) {
      words.words.push_back(word);
      words.bytes += word;
      words.offsets.push_back(static_cast<std::int32_t>(words.bytes.size()));
    }
    of_id.push_back(at->second);
  }
  for (Column& c : table.columns) {
    if (c.name != name) continue;
    for (std::size_t at = 0; at < c.data.size(); at += sizeof(std::uint32_t)) {
      std::uint32_t id;
      std::memcpy(&id, c.data.data() + at, sizeof id);
      std::memcpy(c.data.data() + at, &of_id.at(id), sizeof id);
    }
    c.kind = 'i';  // as libraries want numbers of words
    c.words = std::move(words);
    return;
  }
}

void finish(Columns& table) {
  const auto bits = [&](auto&& is) {
    std::vector<std::uint8_t> out(static_cast<std::size_t>(table.rows + 7) / 8);
    for (std::size_t i = 0; i < static_cast<std::size_t>(table.rows); ++i)
      if (is(i)) out[i / 8] = static_cast<std::uint8_t>(out[i / 8] | 1u << i % 8);
    return out;
  };
  for (Column& c : table.columns) {
    if (c.kind == 'b') c.truth = bits([&](std::size_t i) { return c.data[i] != std::byte{0}; });
    if (c.kind != 'f') continue;
    const auto there = [&](std::size_t i) {
      double value;
      std::memcpy(&value, c.data.data() + i * sizeof value, sizeof value);
      return !std::isnan(value);
    };
    for (std::size_t i = 0; i < static_cast<std::size_t>(table.rows); ++i) c.absent += !there(i);
    if (c.absent != 0) c.present = bits(there);
  }
}

namespace {

using Shares = std::shared_ptr<const Columns>;

const char* arrow_format(const Column& c) {
  switch (c.kind) {
    case 'b': return "b";
    case 'f': return "g";
    case 'i': return c.size == 4 ? "i" : "l";
    default: return c.size == 4 ? "I" : "L";
  }
}

// ---- what Arrow is handed: each part keeps what it points into, since a consumer may keep one part alone ----

struct SchemaParts {
  std::string format, name;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> pointers;
  ArrowSchema dictionary{};
};
struct ArrayParts {
  Shares owner;
  std::vector<const void*> buffers;
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> pointers;
  ArrowArray dictionary{};
};

template <class Struct, class Parts>
void release(Struct* s) {
  for (std::int64_t i = 0; i < s->n_children; ++i)
    if (s->children[i]->release) s->children[i]->release(s->children[i]);
  if (s->dictionary && s->dictionary->release) s->dictionary->release(s->dictionary);
  delete static_cast<Parts*>(s->private_data);
  s->release = nullptr;
}

template <class Struct, class Parts>
void hold(Struct& to, Parts* parts, bool with_dictionary) {
  for (auto& child : parts->children) parts->pointers.push_back(&child);
  to.n_children = static_cast<std::int64_t>(parts->children.size());
  to.children = parts->pointers.data();
  to.dictionary = with_dictionary ? &parts->dictionary : nullptr;
  to.release = &release<Struct, Parts>;
  to.private_data = parts;
}

void make_schema(ArrowSchema& to, std::string format, std::string name, bool nullable, const Column* words,
                 std::span<const Column> children) {
  auto* parts = new SchemaParts{std::move(format), std::move(name), std::vector<ArrowSchema>(children.size()), {}, {}};
  for (std::size_t i = 0; i < children.size(); ++i) {
    const Column& c = children[i];
    make_schema(parts->children[i], arrow_format(c), c.name, c.kind == 'f', c.words ? &c : nullptr, {});
  }
  if (words) make_schema(parts->dictionary, "u", "", false, nullptr, {});
  to = {};
  to.format = parts->format.c_str();
  to.name = parts->name.c_str();
  to.flags = nullable ? 2 : 0;
  hold(to, parts, words != nullptr);
}

void schema_of(const Columns& table, ArrowSchema& to) { make_schema(to, "+s", "", false, nullptr, table.columns); }

void make_array(ArrowArray& to, const Shares& owner, std::int64_t length, std::int64_t nulls,
                std::vector<const void*> buffers, const Column* words, std::span<const Column> children) {
  auto* parts = new ArrayParts{owner, std::move(buffers), std::vector<ArrowArray>(children.size()), {}, {}};
  for (std::size_t i = 0; i < children.size(); ++i) {
    const Column& c = children[i];
    const void* values = c.kind == 'b' ? static_cast<const void*>(c.truth.data()) : c.data.data();
    make_array(parts->children[i], owner, length, c.absent, {c.absent != 0 ? c.present.data() : nullptr, values},
               c.words ? &c : nullptr, {});
  }
  if (words) {
    const Words& w = *words->words;
    make_array(parts->dictionary, owner, static_cast<std::int64_t>(w.words.size()), 0,
               {nullptr, w.offsets.data(), w.bytes.data()}, nullptr, {});
  }
  to = {};
  to.length = length;
  to.null_count = nulls;
  to.n_buffers = static_cast<std::int64_t>(parts->buffers.size());
  to.buffers = parts->buffers.data();
  hold(to, parts, words != nullptr);
}

void array_of(const Shares& table, ArrowArray& to) {
  make_array(to, table, table->rows, 0, {nullptr}, nullptr, table->columns);
}

/// A stream of the one batch.
struct StreamParts {
  Shares table;
  bool given = false;
};
void stream_of(const Shares& table, ArrowArrayStream& to) {
  to.get_schema = [](ArrowArrayStream* s, ArrowSchema* out) {
    schema_of(*static_cast<StreamParts*>(s->private_data)->table, *out);
    return 0;
  };
  to.get_next = [](ArrowArrayStream* s, ArrowArray* out) {
    auto* parts = static_cast<StreamParts*>(s->private_data);
    *out = {};
    if (!std::exchange(parts->given, true)) array_of(parts->table, *out);
    return 0;
  };
  to.get_last_error = [](ArrowArrayStream*) -> const char* { return nullptr; };
  to.release = [](ArrowArrayStream* s) {
    delete static_cast<StreamParts*>(s->private_data);
    s->release = nullptr;
  };
  to.private_data = new StreamParts{table};
}

/// What nobody has taken out of the capsule goes with it.
template <class Struct>
py::object capsule(std::unique_ptr<Struct> what, const char* name) {
  PyObject* made = PyCapsule_New(what.get(), name, [](PyObject* capsule) {
    auto* held = static_cast<Struct*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
    if (held->release) held->release(held);
    delete held;
  });
  if (!made) throw py::error_already_set();
  what.release();
  return py::reinterpret_steal<py::object>(made);
}

py::object schema_capsule(const Columns& table) {
  auto schema = std::make_unique<ArrowSchema>();
  schema_of(table, *schema);
  return capsule(std::move(schema), "arrow_schema");
}

const Column& column(const Columns& table, const std::string& name) {
  if (const Column* found = table.find(name)) return *found;
  throw py::key_error(name);
}

py::array view(const Shares& table, const std::string& name) {
  const Column& c = column(*table, name);
  py::array out(py::dtype(fmt::format("{}{}", c.kind, c.size)), {static_cast<py::ssize_t>(table->rows)},
                {static_cast<py::ssize_t>(c.size)}, c.data.data(), py::cast(std::const_pointer_cast<Columns>(table)));
  out.attr("setflags")(py::arg("write") = false);
  return out;
}

}  // namespace

void bind_columns(py::module_& m) {
  const auto shown = [](const py::object& self, const char* function) {
    return py::module_::import("corun._show").attr(function)(self);
  };
  py::class_<Columns, std::shared_ptr<Columns>>(m, "Columns", "Rows of a result by column.")
      .def_property_readonly("names",
                             [](const Columns& t) {
                               py::tuple out(t.columns.size());
                               for (std::size_t i = 0; i < t.columns.size(); ++i) out[i] = py::str(t.columns[i].name);
                               return out;
                             })
      .def("words",
           [](const Columns& t, const std::string& name) -> py::object {
             const Column& c = column(t, name);
             if (!c.words) return py::none();
             return py::tuple(py::cast(c.words->words));
           },
           py::arg("name"))
      .def("to_pandas", [shown](const py::object& self) { return shown(self, "columns_to_pandas"); })
      .def("_repr_html_", [shown](const py::object& self) { return shown(self, "columns_html"); })
      .def("__len__", [](const Columns& t) { return t.rows; })
      .def("__getitem__",
           [](const std::shared_ptr<Columns>& t, const std::string& name) { return view(t, name); }, py::arg("name"))
      .def("__repr__",
           [](const Columns& t) { return fmt::format("<corun.Columns: {} of {} rows>", t.columns.size(), t.rows); })
      .def("__arrow_c_schema__", [](const Columns& t) { return schema_capsule(t); })
      .def("__arrow_c_array__",
           [](const std::shared_ptr<Columns>& t, const py::object&) {
             auto array = std::make_unique<ArrowArray>();
             array_of(t, *array);
             return py::make_tuple(schema_capsule(*t), capsule(std::move(array), "arrow_array"));
           },
           py::arg("requested_schema") = py::none())
      .def("__arrow_c_stream__",
           [](const std::shared_ptr<Columns>& t, const py::object&) {
             auto stream = std::make_unique<ArrowArrayStream>();
             stream_of(t, *stream);
             return capsule(std::move(stream), "arrow_array_stream");
           },
           py::arg("requested_schema") = py::none());
}

}  // namespace corun::python
