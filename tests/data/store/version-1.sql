PRAGMA user_version = 1;
PRAGMA application_id = 1984914035;
BEGIN TRANSACTION;
CREATE TABLE detail (seq INTEGER PRIMARY KEY, body TEXT NOT NULL);
INSERT INTO "detail" VALUES(1,'{"request_id":"old","attempt":1,"uid":"c2446016597226164534aee7","edges":[{"ts":1790000004.25,"request_id":"old","outcome":"ok","session_id":"s","profile":"coder","client":"c","model":"tiny","duration_s":4.0,"prompt_tokens":10}],"engines":[{"ts":1790000001.25,"request_id":"chatcmpl-old","finish_reason":"stop","e2e_s":1.0,"queue_s":0.25,"prefill_s":0.25,"decode_s":0.5}],"before_end":{"at":1790000000.25,"key":["tiny","0"],"running":8.0,"waiting":3.0},"outcome":"ok","phases":{"outside":3.0,"queue":0.25,"prefill":0.25,"decode":0.5},"evidence":{"cause":"queue_slots","text":"8 of 8 slots were taken"},"parts":"both"}');
INSERT INTO "detail" VALUES(2,'{"request_id":"chatcmpl-orphan","attempt":1,"uid":"856eb3c3dea37c4f44034fa9","edges":[],"engines":[{"ts":1790000004.25,"request_id":"chatcmpl-orphan","finish_reason":"stop","e2e_s":4.0}],"outcome":"ok","phases":{},"parts":"engine"}');
CREATE TABLE progress (name TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "progress" VALUES('limits','[]');
INSERT INTO "progress" VALUES('positions','{"sources":["/var/log/app.jsonl"],"files":[{"path":"/var/log/app.jsonl","device":1,"inode":2,"end":[10,"0123456789abcdef"],"marks":[],"pending":{},"written_ns":0}]}');
CREATE TABLE request (
    seq INTEGER PRIMARY KEY,
    uid TEXT NOT NULL UNIQUE,
    id_key TEXT NOT NULL,  -- as much of its id as the join compares
    stem TEXT,  -- where only the engine told of it: the least that its id may stand for
    session_id TEXT,
    profile TEXT,
    client TEXT,
    model TEXT,
    outcome TEXT NOT NULL,
    cause TEXT,
    ended_at REAL NOT NULL,
    duration_s REAL,
    prompt_tokens INTEGER,
    cached_tokens INTEGER,
    completion_tokens INTEGER
);
INSERT INTO "request" VALUES(1,'c2446016597226164534aee7','old',NULL,'s','coder','c','tiny','ok','queue_slots',1790000004.25,4.0,10,NULL,NULL);
INSERT INTO "request" VALUES(2,'856eb3c3dea37c4f44034fa9','chatcmpl-orphan','orphan',NULL,NULL,NULL,NULL,'ok',NULL,1790000004.25,4.0,NULL,NULL,NULL);
CREATE TABLE waiting (key INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL);
INSERT INTO "waiting" VALUES(1,'edge','{"ts":1790000004.25,"request_id":"waits","outcome":"ok","duration_s":4.0}');
CREATE INDEX by_id ON request (id_key);
CREATE INDEX by_stem ON request (stem) WHERE stem IS NOT NULL;
CREATE INDEX by_end ON request (ended_at, seq, duration_s);
CREATE INDEX by_session ON request (session_id, ended_at, seq, duration_s) WHERE session_id IS NOT NULL;
CREATE INDEX by_profile ON request (profile, ended_at, seq, duration_s) WHERE profile IS NOT NULL;
CREATE INDEX by_client ON request (client, ended_at, seq, duration_s) WHERE client IS NOT NULL;
CREATE INDEX by_model ON request (model, ended_at, seq, duration_s) WHERE model IS NOT NULL;
CREATE INDEX by_cause ON request (cause, ended_at, seq, duration_s) WHERE cause IS NOT NULL;
CREATE INDEX by_outcome ON request (outcome, ended_at, seq, duration_s);
COMMIT;
