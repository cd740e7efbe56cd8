/* trt_fields.cpp: see trt_fields.h. SPDX-License-Identifier: Apache-2.0 */
#include "trt_fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

namespace epiq_trt
{

using nvinfer1::PluginField;
using nvinfer1::PluginFieldCollection;
using nvinfer1::PluginFieldType;
using nvinfer1::TensorRTPhase;

namespace
{

enum Kind { WORD, INT, FLAG, TRUTH, FLOAT, SCALAR }; // TRUTH: any number, not 0 is 1. SCALAR: a FLOAT above 0

enum {
    FUSED = 1 << FUSED_SWIGLU_QUANT,
    MUL = 1 << ACT_MUL_QUANT,
    NORM = 1 << RMS_NORM_QUANT,
    ALL = FUSED | MUL | NORM
};

struct Rule {
    const char *name;
    Kind kind;
    int shown;  // by these creators
    int hidden; // serialised by these beside the shown ones
};

const Rule rules[FIELD_IDS] = {
    {"format", WORD, MUL | NORM, 0},
    {"grain", WORD, ALL, 0},
    {"group", INT, ALL, 0},
    {"layout", WORD, MUL | NORM, 0},
    {"ue8m0", FLAG, MUL | NORM, 0},
    {"mx_round", WORD, MUL | NORM, 0},
    {"nvfp4", WORD, MUL | NORM, 0},
    {"nan", WORD, MUL | NORM, 0},
    {"pad_rows", WORD, MUL | NORM, 0},
    {"padded_cols", INT, MUL | NORM, 0},
    {"scale", SCALAR, ALL, 0},
    {"inv_scale", SCALAR, MUL | NORM, 0},
    {"scale_ub", SCALAR, MUL | NORM, 0},
    {"scale_input", WORD, MUL | NORM, 0},
    {"has_dynamic_scale", TRUTH, FUSED, 0},
    {"typed", FLAG, MUL | NORM, 0},
    {"y_out", FLAG, MUL | NORM, 0},
    {"act", WORD, MUL, 0},
    {"order", WORD, MUL, 0},
    {"chain", WORD, MUL | NORM, 0},
    {"act_round", WORD, MUL, 0},
    {"alpha", FLOAT, MUL, 0},
    {"limit", FLOAT, MUL, 0},
    {"limit_after", FLOAT, MUL, 0},
    {"up_offset", FLOAT, MUL, 0},
    {"eps", FLOAT, NORM, 0},
    {"weight_bias", FLOAT, NORM, 0},
    {"residual", FLAG, NORM, 0},
    {"residual_in_place", FLAG, NORM, 0},
    {"sum_round", WORD, NORM, 0},
    {"norm_round", WORD, NORM, 0},
    {"epiq_trt_scale_tensor", INT, 0, FUSED},
};

/* Serialised beside the attributes. The version changes with the meaning of any attribute; a collection of another
 * version is refused. */
constexpr int32_t SERIAL_VERSION = 1;
const char version_name[] = "epiq_trt_version";
const char count_name[] = "epiq_trt_fields";
constexpr uint64_t VERSION_SEEN = UINT64_C(1) << FIELD_IDS;
static_assert(FIELD_IDS < 64, "one bit for each field, and one for the version");

/* The words of scale_input are names of fields, not values of an enum of epiq. */
const char *const scale_inputs[] = {"default", "scale", "inv_scale"};

int32_t value_of(FieldId id, const char *word)
{
    if (id == SCALE_INPUT) {
        for (int32_t i = 1; i <= 2; i++)
            if (strcmp(word, scale_inputs[i]) == 0)
                return i;
        return 0;
    }
    return epiq_value(rules[id].name, word);
}

const char *word_of(FieldId id, int32_t value)
{
    if (id == SCALE_INPUT)
        return scale_inputs[value];
    return value == 0 ? "default" : epiq_word(value);
}

PluginFieldType type_of(Kind kind)
{
    return kind == WORD                      ? PluginFieldType::kCHAR
           : kind == FLOAT || kind == SCALAR ? PluginFieldType::kFLOAT32
                                             : PluginFieldType::kINT32;
}

const char *type_name(PluginFieldType type)
{
    static const char *const names[] = {"FLOAT16", "FLOAT32", "FLOAT64", "INT8",  "INT16", "INT32", "CHAR",
                                        "DIMS",    "UNKNOWN", "BF16",    "INT64", "FP8",   "INT4",  "FP4"};
    const auto number = static_cast<uint32_t>(type);
    return number < sizeof names / sizeof names[0] ? names[number] : "of a type that does not exist";
}

bool has_type(const PluginField &field, PluginFieldType type, char *why, size_t bytes)
{
    if (field.type != type) {
        snprintf(why, bytes, "field %s is %s, but must be %s", field.name, type_name(field.type), type_name(type));
        return false;
    }
    if (field.data == nullptr) {
        snprintf(why, bytes, "field %s has no data", field.name);
        return false;
    }
    if (type != PluginFieldType::kCHAR && field.length != 1) {
        snprintf(why, bytes, "field %s has length %d, but must be one number", field.name, field.length);
        return false;
    }
    return true;
}

bool read_word(FieldId id, const PluginField &field, FieldValue *value, char *why, size_t bytes)
{
    char word[32];
    const char *text = static_cast<const char *>(field.data);
    int32_t length = field.length;
    while (length > 0 && text[length - 1] == '\0') // some callers count the end of the string
        length--;
    if (length < 1 || length >= static_cast<int32_t>(sizeof word) || memchr(text, '\0', length) != nullptr) {
        snprintf(why, bytes, "field %s has length %d and is no word", field.name, field.length);
        return false;
    }
    memcpy(word, text, length);
    word[length] = '\0';
    value->i = 0;
    if (strcmp(word, "default") == 0 || (value->i = value_of(id, word)) != 0)
        return true;
    for (char *c = word; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    snprintf(why, bytes, "field %s does not know the word \"%s\"", field.name, word);
    return false;
}

bool read_value(FieldId id, const PluginField &field, FieldValue *value, char *why, size_t bytes)
{
    const Kind kind = rules[id].kind;
    if (!has_type(field, type_of(kind), why, bytes))
        return false;
    if (kind == WORD)
        return read_word(id, field, value, why, bytes);
    memcpy(value, field.data, sizeof *value); // whatever its alignment
    if (kind == TRUTH)
        value->i = value->i != 0;
    if (kind == FLAG && value->i != 0 && value->i != 1) {
        snprintf(why, bytes, "field %s is %d, but must be 0 or 1", field.name, value->i);
        return false;
    }
    if (id == SCALE_TENSOR && (value->i < 0 || value->i > 2)) {
        snprintf(why, bytes, "field %s is %d, but must be 0, 1 or 2", field.name, value->i);
        return false;
    }
    if (kind == SCALAR && !(isfinite(value->f) && value->f >= 0)) {
        snprintf(why, bytes, "field %s is %g, but must be finite and above 0", field.name,
                 static_cast<double>(value->f));
        return false;
    }
    if (kind == SCALAR && value->f == 0) // of either sign: not given
        value->i = 0;
    return true;
}

bool read_number(const PluginField &field, int32_t wanted, char *why, size_t bytes)
{
    int32_t number;
    if (!has_type(field, PluginFieldType::kINT32, why, bytes))
        return false;
    memcpy(&number, field.data, sizeof number);
    if (number != wanted)
        snprintf(why, bytes, "serialised by another version: %s is %d, but this library writes %d", field.name, number,
                 wanted);
    return number == wanted;
}

int32_t serialised_count(Op op)
{
    int32_t count = 2;
    for (const Rule &rule : rules)
        count += ((rule.shown | rule.hidden) >> op) & 1;
    return count;
}

} // namespace

const char *op_name(Op op)
{
    static const char *const names[OPS] = {"FusedSwiGLUQuant", "EpiqActMulQuant", "EpiqRmsNormQuant"};
    return names[op];
}

const PluginFieldCollection *field_names(Op op)
{
    static struct Names {
        PluginFieldCollection collections[OPS];
        PluginField fields[OPS][FIELD_IDS];
        Names()
        {
            for (int op = 0; op < OPS; op++) {
                int32_t count = 0;
                for (const Rule &rule : rules)
                    if ((rule.shown >> op) & 1)
                        fields[op][count++] = {rule.name, nullptr, type_of(rule.kind), 1};
                collections[op] = {count, fields[op]};
            }
        }
    } names;
    return &names.collections[op];
}

bool read_fields(Op op, const PluginFieldCollection *fields, TensorRTPhase phase, Config *config, char *why,
                 size_t bytes)
{
    const bool runtime = phase == TensorRTPhase::kRUNTIME;
    uint64_t seen = 0;
    memset(config, 0, sizeof *config);
    config->op = op;
    if (!runtime && phase != TensorRTPhase::kBUILD) {
        snprintf(why, bytes, "phase %d does not exist", static_cast<int>(phase));
        return false;
    }
    if (fields == nullptr || fields->nbFields < 0 || (fields->nbFields > 0 && fields->fields == nullptr)) {
        snprintf(why, bytes, "the collection of fields is missing or malformed");
        return false;
    }
    if (runtime && fields->nbFields != serialised_count(op)) {
        snprintf(why, bytes, "truncated or serialised by another version: %d fields, but this library writes %d",
                 fields->nbFields, serialised_count(op));
        return false;
    }
    for (int32_t n = 0; n < fields->nbFields; n++) {
        const PluginField &field = fields->fields[n];
        if (field.name == nullptr) {
            snprintf(why, bytes, "a field has no name");
            return false;
        }
        if (runtime && strcmp(field.name, version_name) == 0) {
            seen |= VERSION_SEEN;
            if (!read_number(field, SERIAL_VERSION, why, bytes))
                return false;
            continue;
        }
        if (runtime && strcmp(field.name, count_name) == 0) {
            if (!read_number(field, serialised_count(op), why, bytes))
                return false;
            continue;
        }
        int id = 0;
        const auto known = [&] {
            const int whose = rules[id].shown | (runtime ? rules[id].hidden : 0);
            return ((whose >> op) & 1) != 0 && strcmp(field.name, rules[id].name) == 0;
        };
        while (id < FIELD_IDS && !known())
            id++;
        if (id == FIELD_IDS) {
            snprintf(why, bytes, "there is no field \"%.64s\"", field.name);
            return false;
        }
        if ((seen >> id) & 1) {
            snprintf(why, bytes, "field %s is given twice", field.name);
            return false;
        }
        seen |= UINT64_C(1) << id;
        if (!read_value(static_cast<FieldId>(id), field, &config->v[id], why, bytes))
            return false;
    }
    if (runtime && __builtin_popcountll(seen) != serialised_count(op) - 1) {
        snprintf(why, bytes, "truncated: a field that this library writes is missing");
        return false;
    }
    return true;
}

void write_fields(const Config &config, WrittenFields *written)
{
    int32_t count = 0;
    written->version = SERIAL_VERSION;
    written->count = serialised_count(config.op);
    written->fields[count++] = {version_name, &written->version, PluginFieldType::kINT32, 1};
    written->fields[count++] = {count_name, &written->count, PluginFieldType::kINT32, 1};
    for (int id = 0; id < FIELD_IDS; id++) {
        const Rule &rule = rules[id];
        if ((((rule.shown | rule.hidden) >> config.op) & 1) == 0)
            continue;
        const void *data = &config.v[id];
        int32_t length = 1;
        if (rule.kind == WORD) {
            const char *word = word_of(static_cast<FieldId>(id), config.v[id].i);
            data = word;
            length = static_cast<int32_t>(strlen(word));
        }
        written->fields[count++] = {rule.name, data, type_of(rule.kind), length};
    }
    written->collection = {count, written->fields};
}

size_t describe_fields(const Config &config, char *text, size_t bytes)
{
    size_t length = 0;
    const auto put = [&](const char *format, auto... values) {
        const int more = snprintf(text + length, length < bytes ? bytes - length : 0, format, values...);
        length += more > 0 ? static_cast<size_t>(more) : 0;
        if (length >= bytes && bytes > 0)
            length = bytes - 1;
    };
    put("%s", op_name(config.op));
    for (int id = 0; id < FIELD_IDS; id++) {
        const FieldValue value = config.v[id];
        if (((rules[id].shown >> config.op) & 1) == 0 || value.i == 0)
            continue;
        if (rules[id].kind == WORD)
            put(" %s=%s", rules[id].name, word_of(static_cast<FieldId>(id), value.i));
        else if (rules[id].kind == FLOAT || rules[id].kind == SCALAR)
            put(" %s=%.9g", rules[id].name, static_cast<double>(value.f));
        else
            put(" %s=%d", rules[id].name, value.i);
    }
    return length;
}

} // namespace epiq_trt
