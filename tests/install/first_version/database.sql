SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

CREATE FUNCTION public.iso_instant(t text) RETURNS timestamp with time zone
    LANGUAGE plpgsql IMMUTABLE STRICT COST 500 PARALLEL SAFE
    AS $_$
BEGIN
  IF t COLLATE "C" !~ '^(2[0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|(2[0-9](0[48]|[2468][048]|[13579][26])|2[048]00)-02-29)[Tt ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.,][0-9]{1,9})?([Zz]|[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?)?$' THEN
    RETURN NULL;
  END IF;
  RETURN (translate(t, ',', '.') || CASE WHEN ltrim(substr(t, 20), '.,0123456789') = '' THEN 'Z' ELSE '' END)::timestamptz;
END $_$;

SET default_tablespace = '';

SET default_table_access_method = heap;

CREATE TABLE public.notices (
    id uuid NOT NULL,
    failure_id uuid NOT NULL,
    kind text NOT NULL,
    url text,
    body bytea NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    next_attempt_at timestamp with time zone DEFAULT now() NOT NULL,
    delivered_at timestamp with time zone,
    given_up_at timestamp with time zone,
    last_error text,
    CONSTRAINT notices_kind CHECK ((kind = ANY (ARRAY['webhook'::text, 'teardown'::text])))
);

CREATE TABLE public.provision_reaper_version (
    version_num character varying(32) NOT NULL
);

CREATE TABLE public.sites (
    id bigint NOT NULL,
    domain text,
    metadata jsonb
);

CREATE SEQUENCE public.sites_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.sites_id_seq OWNED BY public.sites.id;

CREATE TABLE public.sweep_refusals (
    flow_run_id uuid NOT NULL,
    refused_at timestamp with time zone DEFAULT now() NOT NULL,
    cap integer NOT NULL,
    candidates jsonb NOT NULL
);

CREATE TABLE public.terminal_failures (
    id uuid NOT NULL,
    site_id bigint NOT NULL,
    attempt text NOT NULL,
    failed_at timestamp with time zone DEFAULT now() NOT NULL,
    reason text NOT NULL,
    source text NOT NULL,
    flow_run_id uuid,
    CONSTRAINT terminal_failures_source CHECK ((source = ANY (ARRAY['watchdog'::text, 'approved'::text, 'chain'::text])))
);

ALTER TABLE ONLY public.sites ALTER COLUMN id SET DEFAULT nextval('public.sites_id_seq'::regclass);

INSERT INTO public.notices VALUES
	('1f794520-3449-4b58-9f91-5f4775aed764', '8d72c502-cc86-428f-ac66-c2370629d0eb', 'teardown', NULL, '\x7b227479706522203a2022736974652e70726f766973696f6e5f6661696c6564222c202274696d657374616d7022203a2022323032362d31322d30335430363a35363a34352e3432343636375a222c20226461746122203a207b226661696c7572655f696422203a202238643732633530322d636338362d343238662d616336362d633233373036323964306562222c2022736974655f696422203a20333030303030303030352c2022646f6d61696e22203a2022636861696e2e6578616d706c65222c2022617474656d707422203a2022323032362d31322d30335430363a35363a34352e3431373130385a222c2022726561736f6e22203a2022636861696e3a206e6f206469736b222c2022736f7572636522203a2022636861696e227d7d', 1, '2026-12-03 07:01:20.842998+00', NULL, NULL, 'could not be sent (ConnectError, ConnectionRefusedError)'),
	('8db5c97c-9995-4a93-b992-0a59e765d441', '7f3fea02-87f4-428f-85e9-2a1bbfc2adb9', 'webhook', 'http://127.0.0.1:9/hook', '\x7b227479706522203a2022736974652e70726f766973696f6e5f6661696c6564222c202274696d657374616d7022203a2022323032362d31322d30335430363a35373a32302e3533373838385a222c20226461746122203a207b226661696c7572655f696422203a202237663366656130322d383766342d343238662d383565392d326131626266633261646239222c2022736974655f696422203a20333030303030303030312c2022646f6d61696e22203a202273686f70312e6578616d706c65222c2022617474656d707422203a2022323032352d30312d31355431343a30303a30305a222c2022726561736f6e22203a20227761746368646f673a206578636565646564207468652033302d6d696e757465207468726573686f6c6420776974686f757420636f6d706c6574696e67222c2022736f7572636522203a20227761746368646f67227d7d', 1, '2026-12-03 06:58:20.840591+00', NULL, '2026-12-03 06:57:20.858806+00', 'blocked: http://127.0.0.1 leads to 127.0.0.1, not public'),
	('43455108-b2ab-466e-a301-372c3c242ad7', 'c63e42c9-9e13-4a1b-8ea1-38fb2dce5975', 'webhook', 'https://hooks.example/x', '\x7b227479706522203a2022736974652e70726f766973696f6e5f6661696c6564222c202274696d657374616d7022203a2022323032362d31322d30335430363a35373a32302e3539363533335a222c20226461746122203a207b226661696c7572655f696422203a202263363365343263392d396531332d346131622d386561312d333866623264636535393735222c2022736974655f696422203a20333030303030303030322c2022646f6d61696e22203a202273686f70322e6578616d706c65222c2022617474656d707422203a2022323032352d30312d31355431343a30303a30305a222c2022726561736f6e22203a20227761746368646f673a206578636565646564207468652033302d6d696e757465207468726573686f6c6420776974686f757420636f6d706c6574696e67222c2022736f7572636522203a20227761746368646f67227d7d', 1, '2026-12-03 07:01:20.865593+00', NULL, NULL, 'the host name does not resolve'),
	('8a22490b-471e-47bf-993a-92a24f3413cd', '7f3fea02-87f4-428f-85e9-2a1bbfc2adb9', 'teardown', NULL, '\x7b227479706522203a2022736974652e70726f766973696f6e5f6661696c6564222c202274696d657374616d7022203a2022323032362d31322d30335430363a35373a32302e3533373838385a222c20226461746122203a207b226661696c7572655f696422203a202237663366656130322d383766342d343238662d383565392d326131626266633261646239222c2022736974655f696422203a20333030303030303030312c2022646f6d61696e22203a202273686f70312e6578616d706c65222c2022617474656d707422203a2022323032352d30312d31355431343a30303a30305a222c2022726561736f6e22203a20227761746368646f673a206578636565646564207468652033302d6d696e757465207468726573686f6c6420776974686f757420636f6d706c6574696e67222c2022736f7572636522203a20227761746368646f67227d7d', 1, '2026-12-03 07:01:20.881037+00', NULL, NULL, 'could not be sent (ConnectError, ConnectionRefusedError)'),
	('a3f3be30-b7fb-43b8-a75e-924e232cb0b5', 'c63e42c9-9e13-4a1b-8ea1-38fb2dce5975', 'teardown', NULL, '\x7b227479706522203a2022736974652e70726f766973696f6e5f6661696c6564222c202274696d657374616d7022203a2022323032362d31322d30335430363a35373a32302e3539363533335a222c20226461746122203a207b226661696c7572655f696422203a202263363365343263392d396531332d346131622d386561312d333866623264636535393735222c2022736974655f696422203a20333030303030303030322c2022646f6d61696e22203a202273686f70322e6578616d706c65222c2022617474656d707422203a2022323032352d30312d31355431343a30303a30305a222c2022726561736f6e22203a20227761746368646f673a206578636565646564207468652033302d6d696e757465207468726573686f6c6420776974686f757420636f6d706c6574696e67222c2022736f7572636522203a20227761746368646f67227d7d', 1, '2026-12-03 07:01:20.881566+00', NULL, NULL, 'could not be sent (ConnectError, ConnectionRefusedError)');

INSERT INTO public.provision_reaper_version VALUES
	('0002');

INSERT INTO public.sites VALUES
	(3000000003, 'shop3.example', '{"plan": "pro", "provision": {"started_at": "soon"}}'),
	(3000000004, 'live.example', '{"provision": {"started_at": "2025-01-15T14:00:00Z"}, "health_check": {"completed_at": "2025-01-15T14:09:00Z"}}'),
	(3000000005, 'chain.example', '{"provision": {"run_id": "67993174-6884-4e3d-9924-77efe342db3d", "started_at": "2026-12-03T06:56:45.417108Z"}, "terminal_failure": {"reason": "chain: no disk", "source": "chain", "failed_at": "2026-12-03T06:56:45.424667Z", "started_at": "2026-12-03T06:56:45.417108Z", "flow_run_id": null}}'),
	(3000000001, 'shop1.example', '{"plan": "pro", "provision": {"webhook": "http://127.0.0.1:9/hook", "started_at": "2025-01-15T14:00:00Z"}, "terminal_failure": {"reason": "watchdog: exceeded the 30-minute threshold without completing", "source": "watchdog", "failed_at": "2026-12-03T06:57:20.537888Z", "started_at": "2025-01-15T14:00:00Z", "flow_run_id": "13defbe6-5d63-4f27-85f4-e7a6da7bd5ff"}}'),
	(3000000002, 'shop2.example', '{"plan": "pro", "provision": {"step": "dns", "webhook": "https://hooks.example/x", "started_at": "2025-01-15T14:00:00Z"}, "terminal_failure": {"reason": "watchdog: exceeded the 30-minute threshold without completing", "source": "watchdog", "failed_at": "2026-12-03T06:57:20.596533Z", "started_at": "2025-01-15T14:00:00Z", "flow_run_id": "13defbe6-5d63-4f27-85f4-e7a6da7bd5ff"}}'),
	(3000000006, 'shop6.example', '{"plan": "pro", "provision": {"step": "dns", "started_at": "2025-01-15T14:00:00Z"}}'),
	(3000000007, 'shop7.example', '{"plan": "pro", "provision": {"step": "dns", "started_at": "2025-01-15T14:00:00Z"}}'),
	(3000000008, 'shop8.example', '{"plan": "pro", "provision": {"step": "dns", "started_at": "2025-01-15T14:00:00Z"}}');

INSERT INTO public.sweep_refusals VALUES
	('f046760f-7709-42ff-9658-8a6cfe90eaa0', '2026-12-03 06:57:23.529937+00', 1, '[{"attempt": "2025-01-15T14:00:00Z", "site_id": 3000000006}, {"attempt": "2025-01-15T14:00:00Z", "site_id": 3000000007}, {"attempt": "2025-01-15T14:00:00Z", "site_id": 3000000008}]');

INSERT INTO public.terminal_failures VALUES
	('8d72c502-cc86-428f-ac66-c2370629d0eb', 3000000005, '2026-12-03T06:56:45.417108Z', '2026-12-03 06:56:45.424667+00', 'chain: no disk', 'chain', NULL),
	('7f3fea02-87f4-428f-85e9-2a1bbfc2adb9', 3000000001, '2025-01-15T14:00:00Z', '2026-12-03 06:57:20.537888+00', 'watchdog: exceeded the 30-minute threshold without completing', 'watchdog', '13defbe6-5d63-4f27-85f4-e7a6da7bd5ff'),
	('c63e42c9-9e13-4a1b-8ea1-38fb2dce5975', 3000000002, '2025-01-15T14:00:00Z', '2026-12-03 06:57:20.596533+00', 'watchdog: exceeded the 30-minute threshold without completing', 'watchdog', '13defbe6-5d63-4f27-85f4-e7a6da7bd5ff');

SELECT pg_catalog.setval('public.sites_id_seq', 1, false);

ALTER TABLE ONLY public.notices
    ADD CONSTRAINT notices_failure_kind UNIQUE (failure_id, kind);

ALTER TABLE ONLY public.notices
    ADD CONSTRAINT notices_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.provision_reaper_version
    ADD CONSTRAINT provision_reaper_version_pkc PRIMARY KEY (version_num);

ALTER TABLE ONLY public.sites
    ADD CONSTRAINT sites_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.sweep_refusals
    ADD CONSTRAINT sweep_refusals_pkey PRIMARY KEY (flow_run_id);

ALTER TABLE ONLY public.terminal_failures
    ADD CONSTRAINT terminal_failures_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.terminal_failures
    ADD CONSTRAINT terminal_failures_site_attempt UNIQUE (site_id, attempt);

CREATE INDEX notices_given_up ON public.notices USING btree (given_up_at) WHERE (given_up_at IS NOT NULL);

CREATE INDEX notices_owed ON public.notices USING btree (next_attempt_at) WHERE ((delivered_at IS NULL) AND (given_up_at IS NULL));

CREATE INDEX sites_provision_in_flight ON public.sites USING btree (public.iso_instant((metadata #>> '{provision,started_at}'::text[])), id) WHERE (((metadata #>> '{provision,started_at}'::text[]) IS NOT NULL) AND ((metadata #>> '{terminal_failure}'::text[]) IS NULL) AND ((metadata #>> '{health_check,completed_at}'::text[]) IS NULL));

CREATE INDEX sweep_refusals_refused_at ON public.sweep_refusals USING btree (refused_at);

CREATE INDEX terminal_failures_watchdog ON public.terminal_failures USING btree (failed_at) WHERE (source = 'watchdog'::text);

ALTER TABLE ONLY public.notices
    ADD CONSTRAINT notices_failure FOREIGN KEY (failure_id) REFERENCES public.terminal_failures(id);

